"""A Python job that uses PyPI's nvtx is seen without a line changed."""

import pathlib
import sys
import unittest
from importlib.util import find_spec

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from python_job import PythonJob  # noqa: E402


@unittest.skipUnless(find_spec("nvtx"), "PyPI's nvtx is not installed: its ranges were not tried")
class Nvtx(PythonJob):
    def test_ranges_of_the_package_are_stored(self):
        self.run_python(self.script("""
            import multiprocessing, threading
            import nvtx

            @nvtx.annotate("decorated", domain="training", category="work")
            def work():
                nvtx.mark("marked")

            def child():
                with nvtx.annotate("of a child"):
                    pass

            for _ in range(5):
                work()
            nvtx.push_range("pushed")
            nvtx.pop_range()
            other = nvtx.start_range("across threads")
            thread = threading.Thread(target=nvtx.end_range, args=(other,))
            thread.start()
            thread.join()
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join()
        """))
        rows = self.sql("SELECT name, coalesce(domain, '') AS domain, count(*) AS n, "
                        "count(DISTINCT pid) AS processes FROM event GROUP BY 1, 2 ORDER BY 1")
        self.assertEqual([(r["name"], r["domain"] in ("", "NVTX"), r["n"]) for r in rows],
                         [("across threads", True, 1), ("decorated", False, 5), ("marked", True, 5),
                          ("of a child", True, 1), ("pushed", True, 1)])
        self.assertEqual(self.value("SELECT count(DISTINCT pid) FROM event"), 2)
        self.assertEqual(self.lost(), 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
