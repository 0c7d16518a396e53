/**
 * A process of its own that sends packets as fast as it can: the first line of its input is a `Blast`. After each round it
 * tells how many it has sent, and it ends with its input.
 */
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { openInjector } from './inject.ts'
import type { Packet } from './packets.ts'

export interface Blast {
  packets: readonly Packet[]
  /** The network namespace and its devices. */
  path: string
  devices: readonly (readonly [name: string, index: number])[]
}

/** Packets of a round. Each call takes some 30 ms by itself, and the end of the input is heard between two rounds. */
const ROUND = 100_000

if (import.meta.filename === process.argv[1]) {
  const input = createInterface({ input: process.stdin })
  let open = true
  input.once('close', () => {
    open = false
  })
  const [line] = (await once(input, 'line')) as [string]
  const { packets, path, devices } = JSON.parse(line) as Blast
  const injector = await openInjector()
  await injector.load(packets)
  for (let sent = 0; open; ) {
    sent += injector.repeat({ path, index: new Map(devices) }, Math.max(1, Math.floor(ROUND / packets.length)))
    process.stdout.write(`${sent}\n`)
    await new Promise(setImmediate)
  }
  await injector.close()
}
