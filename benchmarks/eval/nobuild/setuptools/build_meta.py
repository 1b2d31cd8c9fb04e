from maturin import *  # noqa: F403
from maturin import __legacy__ as __legacy__
