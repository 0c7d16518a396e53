/** gRPC health while what is ours in the kernel is not as stored. */
import { once } from 'node:events'
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { healthClient, rig, serveHealth } from '../stream/test/rig.ts'

t.test('grpc-01 a repair that is due: the node, dataplane and the area do not serve, and Watch says so', async (t) => {
  const time = { ms: 0 }
  const node = await rig(t, { clock: () => time.ms })
  const { agent, plane } = node
  await node.addRules(1)
  const client = await healthClient(t, await serveHealth(t, node, { pollMs: 10 }), node)
  const beat = async (seconds: number) => {
    time.ms += seconds * 1000
    await agent.drift.beat()
  }
  const watches = ['', 'dataplane', 'firewall'].map((name) => client.watch(name))
  const told = watches.map(() => '')
  for (const [at, watch] of watches.entries()) {
    watch.on('data', ({ status }) => {
      told[at] = status
    })
  }
  /** Resolves once all three were told so last. */
  const all = async (status: string) => {
    while (!told.every((last) => last === status)) await Promise.race(watches.map((watch) => once(watch, 'data')))
  }
  await all('SERVING')

  const { apply } = plane
  plane.apply = () => Promise.reject(new KernelRefusal('busy'))
  const meddle = async () => {
    plane.entries.delete('firewall/1')
    plane.meddled = true
    await beat(1)
  }
  await meddle()
  await all('NOT_SERVING')
  t.match(await client.list(), { statuses: { node: { status: 'SERVING' }, storage: { status: 'SERVING' } } })
  plane.apply = apply
  await beat(1)
  await all('SERVING')
  t.pass('a repair that failed was told, and its end')

  for (let n = 0; n < 2; n++) await meddle()
  await all('NOT_SERVING')
  t.match(await client.check('firewall'), { status: 'NOT_SERVING' })
  await beat(60)
  await all('SERVING')
  t.pass('and one that waits because somebody undoes it')
  for (const watch of watches) watch.on('error', () => {}).cancel()
})
