import '../../../test/inside.ts'
import { createPublicKey, X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { certify, isStale, makeAuthority, makeKey } from '../certificates.ts'
import { enter, makeParent, startNode, statusOf, until, untilSame } from './node.ts'

requireRoot(t)

t.test('a node that ended while it founded a cluster is in none', async (t) => {
  const a = await startNode(t, 1)
  await a.built.agent.close()
  for (const folder of ['etcd/member/wal', 'cluster']) mkdirSync(join(a.stateDir, folder), { recursive: true })
  writeFileSync(join(a.stateDir, 'cluster', 'ca.pem'), 'x')
  await a.start()
  t.equal(a.engine.standing(), undefined)
  t.equal(a.engine.tls(), undefined)
  for (const folder of ['etcd', 'cluster']) t.notOk(existsSync(join(a.stateDir, folder)))
})

t.test('two members', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.engine.found()
  await enter(a, b)

  await t.test('what the cluster took and the store refused comes by the watch', async (t) => {
    await b.change(makeParent('before'))
    b.failCommits(1, 'the disk was full')
    t.equal(await statusOf(b.change(makeParent('the disk was full'))), 'Error: disk is full')
    await until(() => b.rows().includes('the disk was full'), 'it comes')
    await untilSame([a, b])
    await b.change(makeParent('after'))
    await untilSame([a, b])
  })

  await t.test('a store that refuses for a while falls behind and catches up', async (t) => {
    b.failCommits(3, 'three times')
    await a.change(makeParent('three times'))
    await untilSame([a, b])
    t.match(b.rows(), 'three times')
  })

  await t.test('an address that one member blocks is blocked by all, until somebody unblocks it', async (t) => {
    const [here, there] = [a, b].map(({ built }) => built.agent.gates.lockout)
    for (let n = 0; n < a.built.agent.config.int('api_auth_fail_limit'); n++) here?.fail('192.0.2.1')
    await until(() => there?.blocks().some(({ address }) => address === '192.0.2.1'), 'the other blocks it')
    t.same(there?.blocks(), here?.blocks())
    there?.unblock('192.0.2.1')
    await until(() => here?.blockCount() === 0, 'the first lifts it')
    for (let n = 0; n < 20; n++) there?.fail('2001:db8::/64')
    await until(() => here?.blockCount() === 1, 'it blocks that too')
    await a.restart()
    await until(() => a.built.agent.gates.lockout.blockCount() === 1, 'it knows after a restart')
  })

  await t.test('a node that ended while it entered goes on at the next start', async (t) => {
    await b.built.agent.close()
    b.edit("update cluster_self set mode = 'joining', revision = 0")
    b.edit('delete from trial_parents')
    await b.start()
    await untilSame([a, b])
    await until(() => b.engine.standing()?.writable, 'it is a member')
    await b.change(makeParent('entered after all'))
    await untilSame([a, b])
    t.match(a.rows(), 'entered after all')
  })

  await t.test('a member whose etcd lost its data waits to be removed', async (t) => {
    await b.built.agent.close()
    b.loseData()
    await b.start()
    t.equal(b.engine.standing()?.writable, false)
    t.equal(await statusOf(b.change(makeParent('nowhere'))), 503)
    await b.engine.quit()
    t.equal(b.engine.standing(), undefined)
    await b.change(makeParent('by itself'))
    t.equal(await statusOf(a.engine.quit()), 503, 'one of two is no majority')
    await a.engine.recover()
    await a.engine.quit()
    t.equal(a.engine.standing(), undefined)
    t.match(a.rows(), 'entered after all')
  })
})

t.test('certificates', async (t) => {
  const now = new Date('2030-01-01T00:00:00Z')
  const authority = await makeAuthority('c1', 'all')
  const ca = new X509Certificate(authority.certificate)
  t.ok(ca.ca)
  t.ok(ca.verify(createPublicKey(authority.key)))
  const { publicKey } = makeKey()
  for (const address of ['192.0.2.7', 'fd00::7']) {
    const pem = await certify(authority, { node: 'node-7', address, publicKey }, now)
    const own = new X509Certificate(pem)
    t.ok(own.checkIssued(ca))
    t.ok(own.verify(ca.publicKey))
    t.ok(own.checkIP(address))
    t.ok(own.checkIP('127.0.0.1'))
    t.ok(own.checkHost('node-7'))
    t.same(own.keyUsage, ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2'])
    t.notOk(own.ca)
    t.notOk(isStale(pem, new Date('2030-06-01T00:00:00Z')))
    t.ok(isStale(pem, new Date('2030-08-01T00:00:00Z')))
    t.ok(isStale(pem, new Date('2029-06-01T00:00:00Z')), 'the clock was wrong when it was made')
  }
  const { generateKeyPairSync } = await import('node:crypto')
  const spki = { type: 'spki', format: 'pem' } as const
  const others = [
    generateKeyPairSync('ed25519').publicKey.export(spki),
    generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey.export(spki),
    makeKey().key.slice(0, 40),
  ]
  for (const other of others) {
    t.equal(await statusOf(certify(authority, { node: 'x', address: '192.0.2.1', publicKey: String(other) }, now)), 400)
  }
})
