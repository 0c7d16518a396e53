/** A store that holds the firewall alone. */
import { join } from 'node:path'
import type { Db } from '../../../core/area.ts'
import { openStore } from '../../../core/state/store.ts'
import { scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'

/** What the failsafes ask for. */
export const config = (failsafe: boolean, allowed: string[] = []) =>
  ({ flag: () => failsafe, list: () => allowed, int: (key: string) => (key === 'api_port' ? 7070 : 0) }) as never

export function database(t: Scope): Db {
  const store = openStore(scratch(t))
  t.teardown(() => store.close())
  store.migrate('firewall', join(import.meta.dirname, '..'))
  return store.write
}
