"""The emulators, for the tests of this folder."""

from __future__ import annotations

from tests.support.emulators import gcs as gcs
from tests.support.emulators import localstack as localstack
from tests.support.emulators import moto as moto
from tests.support.emulators import redis as redis
from tests.support.emulators import seaweedfs as seaweedfs
