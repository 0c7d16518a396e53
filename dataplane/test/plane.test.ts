import t from 'tap'
import type { Passage } from '../entry.ts'
import { type Driver, joinDrivers, KernelRefusal, UncertainOutcome } from '../plane.ts'

const DIFF: Passage[] = [
  { after: { kind: 'ceiling', key: 'bandwidth/ceiling', rate: 1 } },
  { after: { kind: 'dns_listener', key: 'dns/listener/192.0.2.1/53', address: '192.0.2.1', port: 53 } },
  { after: { kind: 'forwarding', key: 'networks/forwarding/up0/1', device: 'up0' } },
]

/** Tells in `log` when it begins, ends and is taken back; ends when `until` does. */
function driver(log: string[], kind: Driver['kinds'][number], until: () => Promise<void> = async () => {}): Driver {
  return {
    name: kind,
    kinds: [kind],
    observe: async () => [],
    async apply() {
      log.push(`${kind} begins`)
      await until()
      log.push(`${kind} ends`)
      return async () => void log.push(`${kind} taken back`)
    },
    close: async () => {},
  }
}

t.test('drivers of one turn are at work side by side, and the next waits for all of them', async (t) => {
  const log: string[] = []
  let free = () => {}
  const wait = new Promise<void>((resolve) => {
    free = resolve
  })
  // The first of them ends only because the other has begun.
  const other = driver(log, 'dns_listener', async () => {
    free()
    await new Promise(setImmediate)
  })
  const plane = joinDrivers([[driver(log, 'ceiling', () => wait), other], driver(log, 'forwarding')], () => [])
  const undo = await plane.apply(DIFF)
  t.same(log.splice(0), [
    ...['ceiling begins', 'dns_listener begins', 'ceiling ends', 'dns_listener ends'],
    ...['forwarding begins', 'forwarding ends'],
  ])
  await undo()
  t.same(log, ['forwarding taken back', 'dns_listener taken back', 'ceiling taken back'])
})

t.test('when one of a turn refuses, what the other has done is taken back once it has ended', async (t) => {
  for (const error of [new KernelRefusal('no room'), new UncertainOutcome('who knows')]) {
    const log: string[] = []
    const refusing = driver(log, 'ceiling', () => Promise.reject(error))
    const slow = driver(log, 'dns_listener', () => new Promise(setImmediate))
    const plane = joinDrivers([[refusing, slow], driver(log, 'forwarding')], () => [])
    await t.rejects(plane.apply(DIFF), error)
    t.same(log, ['ceiling begins', 'dns_listener begins', 'dns_listener ends', 'dns_listener taken back'])
  }
})

t.test('of two failures the one that leaves most unknown is told', async (t) => {
  const refuse = driver([], 'ceiling', () => Promise.reject(new KernelRefusal('no room')))
  const lose = driver([], 'dns_listener', () => Promise.reject(new UncertainOutcome('who knows')))
  await t.rejects(joinDrivers([[refuse, lose]], () => []).apply(DIFF), UncertainOutcome)
})
