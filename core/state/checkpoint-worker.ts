/** The thread of checkpoint.ts: one checkpoint, by a connection of its own. */
import { workerData } from 'node:worker_threads'
import { Database } from './sqlite.ts'

const db = new Database(String(workerData), { fileMustExist: true })
db.pragma('wal_checkpoint(PASSIVE)')
db.close()
