/** What REST answers without FRR, when bgpd refuses, and while it does not answer. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { type Bgp, NO_BGP } from '../../../dataplane/frr/bgp.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { BGP, bgpArea } from './area.ts'

const NEIGHBOR = { peer_addr: '192.0.2.2', peer_as: 65002, local_as: 65001 }

t.test('err-09 without FRR the area answers 503 and the node runs', async (t) => {
  const plane = fakePlane()
  const { call } = await bgpArea(t, {
    plane: Object.assign(plane, {
      check: () => [
        { name: 'nft', available: true, detail: '' },
        { name: 'bgp', available: false, detail: 'no bgpd' },
      ],
    }),
  })
  for (const path of ['/status', '/neighbors', '/nothing']) {
    t.match(await call('GET', `${BGP}${path}`), { status: 503, body: { error: 'bgp service not available' } })
  }
})

t.test('what bgpd refuses is taken back', async (t) => {
  const { call, sure, plane, held, events } = await bgpArea(t)
  await sure('POST', '/neighbors', NEIGHBOR)
  const before = [held(), events()]
  plane.refuse = new KernelRefusal('bgpd: no')
  t.match(await call('POST', `${BGP}/announce`, { prefix: '198.51.100.0/24' }), { status: 409 })
  t.same([held(), events()], before)
  t.same((await sure('GET', '/routes')).routes, [])
})

t.test('D77 without TCP-MD5 in the kernel a key is a bad request, and nothing goes without it', async (t) => {
  const { call, plane, held } = await bgpArea(t)
  Object.assign(plane, { bgp: { ...NO_BGP, md5: () => false } })
  const answer = await call('POST', `${BGP}/neighbors`, { ...NEIGHBOR, md5_key: 'k' })
  t.match(answer, { status: 400, body: { error: /^md5_key: this kernel has no TCP-MD5/ } })
  t.same(held(), [])
  t.equal((await call('POST', `${BGP}/neighbors`, NEIGHBOR)).status, 201)
})

t.test('an announcement counts once, however many speakers tell of it', async (t) => {
  const { sure, plane } = await bgpArea(t)
  await sure('POST', '/announce', { prefix: '198.51.100.0/24' })
  t.match(await sure('GET', '/status'), { routes: 1 })
  await sure('POST', '/neighbors', NEIGHBOR)
  Object.assign(plane, { bgp: { ...NO_BGP, prefixes: async () => [5, 1, 3] } })
  t.match(await sure('GET', '/status'), { routes: 7 })
})

t.test('it runs while bgpd does, and is not told about while that does not answer', async (t) => {
  const { call, sure, plane, events } = await bgpArea(t)
  await sure('POST', '/neighbors', { peer_addr: '192.0.2.2', peer_as: 65002, local_as: 65001 })
  t.match(await sure('GET', '/status'), { status: 'idle', neighbors: 1 })
  const says = (bgp: Partial<Bgp>) => Object.assign(plane, { bgp: { ...NO_BGP, pids: () => ({ bgpd: 1 }), ...bgp } })
  says({})
  t.match(await sure('GET', '/status'), { status: 'running' })
  let looked = 0
  const neighbors = () => {
    looked++
    return Promise.reject(new Error('bgpd does not answer: look at its log'))
  }
  says({ neighbors })
  for (const path of ['status', 'neighbors'])
    t.match(await call('GET', `${BGP}/${path}`), { status: 503, body: { error: /bgpd does not answer/ } }, path)
  while (looked < 4) await wait(20)
  t.notOk(events().includes('neighbor.state_changed'), 'no session has ended by that')
})
