import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { openLeaseBuffer } from '../leases.ts'

const lease = (address: string) =>
  ({ net: 1, address, mac: '02:ce:0a:00:00:01', hostname: '', state: 'active', expiresAt: 1, at: 1 }) as const

function setUp() {
  const leases = openLeaseBuffer()
  const told: string[] = []
  const grant = (address: string, as = address) => {
    const { seq } = leases.add(lease(address))
    leases.whenStored(1, address, () => void told.push(as))
    return seq
  }
  return { leases, told, grant }
}

t.test('a client is told once its lease is stored, and not before', async (t) => {
  const { leases, told, grant } = setUp()
  leases.connected(true)
  const [first] = [grant('10.0.0.1'), grant('10.0.0.2')]
  t.same(told, [])
  leases.drop(first)
  t.same(told, ['10.0.0.1'])
  leases.whenStored(1, '10.0.0.1', () => void told.push('again'))
  t.same(told, ['10.0.0.1', 'again'], 'who asks twice is told at once what is stored already')
  leases.whenStored(1, '10.0.0.2', () => void told.push('second'))
  leases.drop(first + 1)
  t.same(told, ['10.0.0.1', 'again', 'second'], 'and once, where it is not')
  t.same(leases.all(), [])
})

t.test('without an agent it is told at once, and so are those who wait when the agent dies', async (t) => {
  const { leases, told, grant } = setUp()
  grant('10.0.0.1')
  t.same(told, ['10.0.0.1'])
  leases.connected(true)
  grant('10.0.0.2')
  t.same(told, ['10.0.0.1'])
  leases.connected(false)
  t.same(told, ['10.0.0.1', '10.0.0.2'])
  t.equal(leases.all().length, 2, 'the news wait')
})

t.test('an agent that does not store keeps clients waiting for a second, and only those of the first', async (t) => {
  const { leases, told, grant } = setUp()
  leases.connected(true)
  grant('10.0.0.1')
  const since = performance.now()
  while (told.length === 0) await wait(5)
  t.ok(performance.now() - since >= 990, 'it was waited for')
  const seq = grant('10.0.0.2')
  t.same(told, ['10.0.0.1', '10.0.0.2'])
  leases.drop(seq)
  grant('10.0.0.3')
  t.same(told, ['10.0.0.1', '10.0.0.2'], 'one that stores again is waited for')
  leases.close()
})
