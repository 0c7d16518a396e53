import '../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { certify, publicKeyOf } from '../certificates.ts'
import { openFiles } from '../files.ts'
import { startBare } from './bare.ts'
import { makeParent, startNode, statusOf, until } from './node.ts'

requireRoot(t)

const DAY_MS = 86_400_000

for (const [what, days] of [
  ['is over', -500],
  ['was made by a wrong clock', 500],
] as const) {
  t.test(`a node whose certificate ${what} comes back with another one`, async (t) => {
    const node = await startNode(t, 1)
    await node.engine.found()
    await node.built.agent.close()
    const files = openFiles(node.stateDir)
    const [tls, authority] = [files.tls(), files.authority()]
    if (tls === undefined || authority === undefined) throw new Error('it has neither')
    const subject = { node: 'n1', address: node.address, publicKey: publicKeyOf(tls.key) }
    const at = new Date(Date.now() + days * DAY_MS)
    files.keep({ ...tls, certificate: await certify(authority, subject, at) })
    await node.start()
    await until(() => node.engine.standing()?.writable, 'etcd takes changes')
    t.equal(await statusOf(node.change(makeParent('after all'))), 'done')
  })
}

t.test('a client goes on with another certificate', async (t) => {
  const { etcd, session } = await startBare(t)
  const ended = new Promise((resolve) => etcd.watch('/', 1, { events() {}, end: resolve }))
  await etcd.get('/a')
  session.renew()
  await ended
  t.equal(await etcd.get('/a'), undefined)
})
