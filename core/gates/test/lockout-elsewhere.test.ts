/** Blocks that other members of a cluster made, and those that they are told of. */
import t from 'tap'
import { type Block, lockout } from '../lockout.ts'

const limits: Record<string, number> = {
  api_auth_fail_limit: 3,
  api_auth_fail_window: 300,
  api_auth_block_seconds: 900,
}
const config = { int: (key: string) => limits[key] ?? 0, onChange: () => () => {} } as unknown as Parameters<
  typeof lockout
>[0]

function open() {
  const clock = { ms: Date.parse('2030-01-01T00:00:00Z') }
  const announced: Block[] = []
  const locked = lockout(
    config,
    () => clock.ms,
    (block) => void announced.push(block),
  )
  const told: (Block | string)[] = []
  const stop = [
    locked.onBlock((block) => void told.push(block)),
    locked.onUnblock((address) => void told.push(address)),
  ]
  const fail = (times: number) => {
    for (let n = 0; n < times; n++) locked.fail('192.0.2.1')
  }
  const until = (seconds: number) => new Date(clock.ms + seconds * 1000).toISOString()
  return { locked, clock, told, announced, fail, until, stop: () => stop.map((end) => end()) }
}

t.test('a block is told of when it is made, when it is made longer, and when it is ended here', async (t) => {
  const { locked, clock, told, announced, fail, until, stop } = open()
  fail(2)
  t.same(told, [])
  fail(1)
  const first = { address: '192.0.2.1', until: until(900), failures: 3 }
  t.same([told, announced.length], [[first], 1])
  clock.ms += 1000
  fail(3)
  t.same(told.slice(1), [{ ...first, until: until(900) }])
  t.equal(announced.length, 1, 'it is no news that an address stays blocked')
  t.ok(locked.unblock('192.0.2.1'))
  t.notOk(locked.unblock('192.0.2.1'))
  t.same(told.slice(2), ['192.0.2.1'])
  stop()
  fail(3)
  t.equal(told.length, 3)
})

t.test('a block from elsewhere holds until its end, is no news, and is told to nobody', async (t) => {
  const { locked, clock, told, announced, fail, until } = open()
  const block = { address: '192.0.2.1', until: until(60), failures: 7 }
  locked.impose(block)
  t.same([locked.blocks(), locked.blockCount()], [[block], 1])
  t.equal(locked.refusal('192.0.2.1')?.status, 429)
  locked.impose({ ...block, until: until(30) })
  t.same(locked.blocks(), [block], 'the longer one stands')
  locked.impose({ ...block, until: until(90) })
  clock.ms += 61_000
  t.equal(locked.refusal('192.0.2.1')?.status, 429)
  clock.ms += 30_000
  t.equal(locked.refusal('192.0.2.1'), undefined)
  locked.impose({ ...block, until: until(-1) })
  t.equal(locked.blockCount(), 0, 'one that has ended')
  locked.impose({ ...block, until: until(60) })
  locked.lift('192.0.2.1')
  t.equal(locked.blockCount(), 0)
  t.same([told, announced], [[], []])
  fail(2)
  t.equal(locked.blockCount(), 0, 'failures are counted anew')
})
