from .distributed_c10d import *  # noqa: F401,F403
from .distributed_c10d import get_rank, is_available, is_initialized  # noqa: F401
