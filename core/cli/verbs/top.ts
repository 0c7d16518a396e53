/** The node as it goes, in the terminal. */
import { setTimeout as wait } from 'node:timers/promises'
import { Refused } from '../client.ts'
import { readDevices } from '../top/devices.ts'
import { picture, type Shown } from '../top/picture.ts'
import { type Look, type Pane, UsageError, type Verb, type VerbContext } from '../verb.ts'

const INTERVAL_S = 2
/** The agent rests so many times as long as it took to answer: watching costs it at most a twentieth of a core. */
const REST = 20
/** Of a picture that goes to a file or a pipe. */
const PLAIN = { columns: 160, rows: 200 }

export const topVerb = (panes: () => Promise<readonly Pane[]>): Verb => ({
  path: 'top',
  summary: 'show flows, ports, limits and VIPs as they are now, again and again; q ends it',
  example: 'top --interval 5',
  options: [
    { flags: '--once', summary: 'one picture on standard output; rates are measured over the interval' },
    { flags: '--interval <duration>', summary: `between two pictures, ${INTERVAL_S}s unless given`, duration: true },
  ],
  async run(context) {
    const seconds = Number(context.options.interval ?? INTERVAL_S)
    if (seconds < 1 || seconds > 3600) throw new UsageError('--interval: must be from 1s to 1h')
    const eyes = watcher(await panes(), context.call)
    const screen = context.options.once === true || context.json ? undefined : context.screen()
    if (screen === undefined) {
      await eyes.look()
      await wait(seconds * 1000)
      const { head, shown } = await eyes.look()
      context.print({ panes: shown }, picture(head, shown, PLAIN.columns, PLAIN.rows).join('\n'))
      return
    }
    try {
      for (;;) {
        const began = performance.now()
        const { head, shown } = await eyes.look()
        const pause = Math.max(seconds * 1000, (performance.now() - began) * REST)
        const draw = () => screen.draw(picture(head, shown, screen.columns, screen.rows))
        draw()
        let why = await screen.wait(pause)
        while (why === 'resize') {
          draw()
          why = await screen.wait(pause)
        }
        if (why === 'quit') return
      }
    } finally {
      screen.close()
    }
  },
})

interface Status {
  status: string
  version: string
  uptime: string
}

function watcher(panes: readonly Pane[], call: VerbContext['call']) {
  const counters = panes.map(() => new Map<string, number>())
  let last = 0
  return {
    /** @throws Refused when the agent refuses everything, Unreachable when it is gone */
    async look(): Promise<{ head: string[]; shown: Shown[] }> {
      const { status, version, uptime } = await call<Status>('GET', '/api/v1/status')
      const now = performance.now()
      const seconds = last === 0 ? 0 : (now - last) / 1000
      last = now
      const devices = readDevices()
      const shown: Shown[] = []
      // One after the other: the agent shall not have to answer all of them at once.
      for (const [at, { title, read }] of panes.entries()) {
        const before = counters[at] ?? new Map()
        const after = new Map<string, number>()
        const rate: Look['rate'] = (key, count) => {
          after.set(key, count)
          const old = before.get(key)
          if (old === undefined || seconds === 0) return undefined
          // A counter that begins anew has no rate.
          return count < old ? undefined : (count - old) / seconds
        }
        shown.push({ title, rows: await read({ call, rate, devices }).catch(reasonOf) })
        counters[at] = after
      }
      return {
        head: [`stratumd ${version}  ${status}  up ${uptime}  ${new Date().toISOString().slice(0, 19)}Z`],
        shown,
      }
    },
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof Refused) return error.message
  throw error
}
