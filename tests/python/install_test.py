"""pip installs the module from its folder, without a compiler."""

import pathlib
import shutil
import sys
import unittest
from importlib.util import find_spec

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from python_job import MODULE, PythonJob, clean_environment  # noqa: E402


@unittest.skipUnless(all(map(find_spec, ("pip", "setuptools", "wheel"))),
                     "pip, setuptools or wheel is not installed: the installation is not tried")
class Install(PythonJob):
    def test_pip_installs_the_folder(self):
        target, source = self.folder / "site", self.folder / "python"
        shutil.copytree(MODULE, source)
        self.run_program([sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation",
                          "--no-deps", "--disable-pip-version-check", "--root-user-action=ignore",
                          "--target", str(target), str(source)])
        out, _ = self.run_program([sys.executable, "-c", "import poolscope; print(poolscope)"],
                                  env=clean_environment(PYTHONPATH=str(target)))
        self.assertIn(str(target), out)


if __name__ == "__main__":
    sys.exit(unittest.main())
