"""Importing this makes fairseq ready for tests: with this package's components, and with options composed quickly."""

import warnings

import fairseq_ext
from tests.fork_server import quicken_hydra

warnings.filterwarnings("ignore", module="hydra")
fairseq_ext.install()
quicken_hydra()
