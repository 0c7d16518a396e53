/**
 * SQLite as this Node can have it. better-sqlite3 13 needs Node-API 10, which Node 22.14 was the first LTS to have: an earlier one
 * ends by a segmentation fault. better-sqlite3 12 runs on Node 20; on Node 24 it aborts. Both write the same file, so a node may change its Node at will.
 */
import { createRequire } from 'node:module'
import type Sqlite from 'better-sqlite3'

const NODE_API = 10

/** The module that fits a Node with this version of Node-API (`process.versions.napi`). */
export const sqliteFor = (nodeApi: string | undefined): string =>
  Number(nodeApi) >= NODE_API ? 'better-sqlite3' : 'better-sqlite3-12'

export const Database: typeof Sqlite = createRequire(import.meta.url)(sqliteFor(process.versions.napi))
