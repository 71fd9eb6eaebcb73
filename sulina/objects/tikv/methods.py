"""The paths of the methods of PD and TiKV."""

from __future__ import annotations

from typing import Final

MEMBERS: Final = "/pdpb.PD/GetMembers"
TIMESTAMPS: Final = "/pdpb.PD/Tso"
REGION: Final = "/pdpb.PD/GetRegion"
STORE: Final = "/pdpb.PD/GetStore"

GET: Final = "/tikvpb.Tikv/KvGet"
BATCH_GET: Final = "/tikvpb.Tikv/KvBatchGet"
SCAN: Final = "/tikvpb.Tikv/KvScan"
PREWRITE: Final = "/tikvpb.Tikv/KvPrewrite"
COMMIT: Final = "/tikvpb.Tikv/KvCommit"
ROLLBACK: Final = "/tikvpb.Tikv/KvBatchRollback"
CHECK_TXN: Final = "/tikvpb.Tikv/KvCheckTxnStatus"
RESOLVE: Final = "/tikvpb.Tikv/KvResolveLock"
SCAN_LOCK: Final = "/tikvpb.Tikv/KvScanLock"
