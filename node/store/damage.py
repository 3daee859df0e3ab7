"""Which sectors of a file a store must miss if the disk turns them into zeros."""

from zab_chaos.node.store.errors import CorruptLog
from zab_chaos.node.store.log_record import SECTOR
from zab_chaos.node.store.reader import SegmentReader
from zab_chaos.node.store.segment import segment_number
from zab_chaos.node.store.snapshot import snapshot_zxid


def detectable_sectors(name: str, content: bytes) -> list[int]:
    """Return the offsets of the sectors of a file whose loss a reader can detect.

    In a snapshot these are all. In a log they are those before the last batch, of which a power cut may leave any part.
    A log that can't be read, and files of other programs, have none.
    """
    number = segment_number(name)
    if number is None:
        sectors = range(0, len(content) - SECTOR, SECTOR) if snapshot_zxid(name) is not None else ()
        return [at for at in sectors if content[at : at + SECTOR].strip(b"\0")]  # else it is full of zeros already
    try:
        records = list(SegmentReader(number, content).records(None))
    except CorruptLog:
        return []
    last_batch = [record.offset for record in records if record.batch == records[-1].batch]
    return [at for at in range(0, last_batch[0], SECTOR) if at + SECTOR <= last_batch[-1]] if last_batch else []
