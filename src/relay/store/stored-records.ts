/** The records of the log as they lie in LevelDB, run by run. */
import { logKey, lsnOf } from './keys.ts';
import type { Level } from './level.ts';
import { DamagedRecord } from './record.ts';

const READ_RECORDS = 1000;
const READ_BYTES = 4 << 20;
/** The same for whoever reads beside the mail, and is to hold nobody up. */
const RUN_RECORDS = 100;
const RUN_BYTES = 256 << 10;

/** Every record of this stretch, undecoded. Throws `DamagedRecord` where one is missing. */
export async function* storedRecords(
  level: Level,
  fromLsn: number,
  throughLsn: number,
): AsyncGenerator<[lsn: number, record: Buffer]> {
  let expected = fromLsn;
  const iterator = level.iterator({
    gte: logKey(fromLsn),
    lte: logKey(throughLsn),
    fillCache: false,
    highWaterMarkBytes: READ_BYTES,
  });
  try {
    for (;;) {
      const run = await iterator.nextv(READ_RECORDS);
      if (run.length === 0) break;
      for (const [key, record] of run) {
        if (lsnOf(key) !== expected) throw new DamagedRecord(`log record ${expected} is missing`);
        yield [expected++, record];
      }
    }
  } finally {
    await iterator.close();
  }
  if (expected <= throughLsn) throw new DamagedRecord(`log record ${expected} is missing`);
}

/** The records of this stretch, undecoded, the newest first. Throws `DamagedRecord` where one is missing. */
export async function* storedRecordsBack(
  level: Level,
  throughLsn: number,
  fromLsn: number,
): AsyncGenerator<[lsn: number, record: Buffer][]> {
  let expected = throughLsn;
  const iterator = level.iterator({
    gte: logKey(fromLsn),
    lte: logKey(throughLsn),
    reverse: true,
    fillCache: false,
    highWaterMarkBytes: RUN_BYTES,
  });
  try {
    for (;;) {
      if (expected < fromLsn) return;
      const run = await iterator.nextv(RUN_RECORDS);
      if (run.length === 0) throw new DamagedRecord(`log record ${expected} is missing`);
      yield run.map(([key, record]): [number, Buffer] => {
        if (lsnOf(key) !== expected) throw new DamagedRecord(`log record ${expected} is missing`);
        return [expected--, record];
      });
    }
  } finally {
    await iterator.close();
  }
}
