/** `stratumctl teardown`: finds what takeOff must know, and keeps any agent out while it works. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type Teardown, takeOff } from '../dataplane/teardown.ts'
import { discoverAreas, ownersOf } from './areas.ts'
import { controlSocket, frrPlaces, placesFrom, responderSocket } from './environment.ts'
import { lockState } from './state/lock.ts'

const PLUGINS = join(import.meta.dirname, '..', 'plugins')
/** An agent that was just told to stop has this long. */
const PATIENCE_MS = 2000

/** @throws Error while an agent runs on the state directory of `environment`, or answers in its run directory */
export async function teardown(environment: Readonly<Record<string, string | undefined>>): Promise<Teardown> {
  const places = placesFrom(environment)
  const lock = await lockState(places.stateDir, PATIENCE_MS)
  try {
    // The unit's agent may have its state elsewhere than whoever calls us believes.
    const path = controlSocket(places)
    if (await answers(path)) throw new Error(`an agent answers at ${path}: stop it first`)
    return await takeOff({
      owners: ownersOf((await discoverAreas(PLUGINS)).map(({ area }) => area)),
      bpfDir: places.bpfDir,
      responderSocket: responderSocket(places),
      frr: frrPlaces(places),
      lock: lock.fd,
    })
  } finally {
    lock.release()
  }
}

async function answers(path: string): Promise<boolean> {
  const socket = connect(path)
  return once(socket, 'connect')
    .then(
      () => true,
      () => false,
    )
    .finally(() => socket.destroy())
}
