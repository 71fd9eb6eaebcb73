"""What tests of documents share."""

from __future__ import annotations

from tests.support.fixtures import shared_sulina_process as shared_sulina_process
