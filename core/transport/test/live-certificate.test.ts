/** tls-01: a certificate that is replaced on disk, with everything that can go wrong about it, while clients are connected. */
import '../../../test/inside.ts'
import { once } from 'node:events'
import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { requireRoot, type Scope } from '../../../test/netns.ts'
import { type Certificate, loadCertificate } from '../tls.ts'
import { live, NODE, typesOf, until } from './live.ts'

requireRoot(t)

const STATUS = '/api/v1/status'

/** A pair of files that the agent is told to use, and others to put in their place. */
async function pairs(t: Scope) {
  const dir = scratch(t)
  const made = await Promise.all(
    ['a', 'b', 'c'].map((name) =>
      loadCertificate({ stateDir: join(dir, name), nodeName: name, addresses: async () => [NODE], now: new Date() }),
    ),
  )
  const [a, b, c] = made as [Certificate, Certificate, Certificate]
  const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')]
  /** As certbot and its like do it: each beside the old one, then over it. */
  const install = (certFrom: Certificate, keyFrom: Certificate) => {
    copyFileSync(certFrom.certPath, `${cert}.new`)
    copyFileSync(keyFrom.keyPath, `${key}.new`)
    renameSync(`${cert}.new`, cert)
    renameSync(`${key}.new`, key)
  }
  install(a, a)
  return { a, b, c, cert, key, install }
}

t.test(
  'tls-01 a replaced certificate is shown to new connections on all three ports; who is connected stays',
  async (t) => {
    const { a, b, cert, key, install } = await pairs(t)
    const node = await live(t, { config: { tls_cert: cert, tls_key: key } }, cert)
    const [rest, reader, health] = [node.rest(), await node.reader(), await node.health()]
    const watch = health.watch('')
    t.same(await once(watch, 'data'), [{ status: 'SERVING' }])
    watch.on('error', (error) => t.fail(`the watch ended: ${error}`))
    t.match(await rest('GET', STATUS), { status: 200, kept: false })
    t.same(await node.presented(), Array(3).fill(a.fingerprint256))

    install(b, b)
    await until(node.presented, (shown) => shown.every((one) => one === b.fingerprint256))
    // Clients of before trust the former certificate only: were they to connect anew, they would fail.
    t.match(await rest('POST', '/api/v1/rules', { action: 'accept' }), { status: 201, kept: true })
    await until(
      () => typesOf(reader),
      (types) => types.includes('rule.created'),
    )
    t.same(await health.check(''), { status: 'SERVING' })
    const pubkey = await node.agent.call('GET', '/api/v1/tls/pubkey')
    t.equal(pubkey.text, b.spkiPem, 'and pins are told the new one')
    watch.removeAllListeners('error').on('error', () => {})
  },
)

t.test('tls-01 a replacement that cannot be served changes nothing, and shows until it is mended', async (t) => {
  const { a, b, c, cert, key, install } = await pairs(t)
  const node = await live(t, { config: { tls_cert: cert, tls_key: key } }, cert)
  const { agent } = node
  const rest = node.rest()
  await rest('GET', STATUS)
  const amiss = async () => (await agent.call('GET', '/control/v1/services')).body.troubles as string[]
  const told = () => agent.logged.filter(({ about, level }) => about === 'certificate' && level === 'error')
  const half = readFileSync(b.certPath, 'utf8').slice(0, 200)
  const broken: [string, () => void, RegExp][] = [
    ['another key', () => install(b, c), /does not belong to the certificate/],
    ['garbage', () => writeFileSync(cert, 'garbage'), /holds no PEM certificate/],
    ['half a key', () => writeFileSync(key, half), /holds no unencrypted PEM private key/],
    ['half a certificate', () => writeFileSync(cert, half), /holds no PEM certificate/],
    ['no file', () => renameSync(cert, `${cert}.away`), /cert\.pem does not exist/],
  ]
  for (const [what, breaks, why] of broken) {
    breaks()
    const [trouble = ''] = await until(amiss, ([first = '']) => why.test(first))
    t.match(trouble, /; the former one stays in use$/, what)
    t.same(await node.presented(), Array(3).fill(a.fingerprint256), what)
    t.match(await rest('GET', STATUS), { status: 200, body: { status: 'degraded' }, kept: true })
    t.match(told().at(-1), { problem: why })
    install(a, a)
    await until(amiss, (all) => all.length === 0)
  }
  install(c, c)
  await until(node.presented, (shown) => shown.every((one) => one === c.fingerprint256))
  t.same(await amiss(), [])
})
