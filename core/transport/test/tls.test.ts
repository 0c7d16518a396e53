import { createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, get } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SecureVersion } from 'node:tls'
import t, { type Test } from 'tap'
import {
  type Certificate,
  type CertificateOptions,
  loadCertificate,
  TLS_MIN_VERSION,
  watchCertificate,
} from '../tls.ts'

function scratch(t: Pick<Test, 'teardown'>): string {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-tls-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

function node(stateDir: string, changes: Partial<CertificateOptions> = {}): CertificateOptions {
  const addresses = async () => ['192.0.2.10', '2001:db8::10', 'fe80::1%eth0', '192.0.2.10']
  return { stateDir, nodeName: 'node-1.example', addresses, now: new Date(), ...changes }
}

interface Exchange {
  /** Lowest version the server speaks. */
  server?: SecureVersion
  /** The only versions the client speaks. */
  client?: SecureVersion
}

/** Serves on loopback and asks once, as a client that pins `ca` and expects `host`; gives the status. */
async function ask(t: Pick<Test, 'teardown'>, served: Certificate, ca: string, host: string, versions: Exchange = {}) {
  const { server: minVersion = TLS_MIN_VERSION, client } = versions
  // OpenSSL 3 offers versions below 1.2 only at security level 0.
  const old = { ciphers: 'ALL:@SECLEVEL=0' }
  const server = createServer(
    { cert: served.cert, key: served.key, minVersion, ...(client ? old : {}) },
    (_, reply) => {
      reply.end('hello')
    },
  )
  // A client that is refused is the point of some tests.
  server.on('tlsClientError', () => {})
  t.teardown(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A listening TCP server has an address and port.
  const { port } = server.address() as AddressInfo
  const only = client ? { minVersion: 'TLSv1' as const, maxVersion: client, ...old } : {}
  const request = get({ host: '127.0.0.1', port, ca, servername: host, agent: false, ...only })
  const [response] = await once(request, 'response')
  response.resume()
  return response.statusCode as number
}

t.test('a self-signed certificate is made once, and node:https accepts it by ca', async (t) => {
  const dir = scratch(t)
  const made = await loadCertificate(node(dir))
  for (const host of ['node-1.example', 'localhost']) t.equal(await ask(t, made, made.cert, host), 200, host)
  const leaf = new X509Certificate(made.cert)
  for (const ip of ['192.0.2.10', '2001:db8::10', 'fe80::1', '127.0.0.1', '::1']) t.equal(leaf.checkIP(ip), ip)
  t.equal(leaf.subjectAltName?.match(/192\.0\.2\.10/g)?.length, 1, 'each once')
  t.notOk(leaf.ca)
  t.equal(leaf.publicKey.asymmetricKeyDetails?.namedCurve, 'prime256v1')
  t.equal(made.notAfter.getUTCFullYear(), new Date().getUTCFullYear() + 10)
  t.ok(new Date(leaf.validFrom).getTime() < Date.now() - 3_600_000, 'a slow client clock is forgiven')
  for (const path of [made.certPath, made.keyPath]) t.equal(statSync(path).mode & 0o777, 0o600)
  const again = await loadCertificate(node(dir, { nodeName: 'renamed', addresses: async () => ['198.51.100.1'] }))
  t.equal(again.fingerprint256, made.fingerprint256)
})

t.test('the public key is PEM and equals that of the certificate', async (t) => {
  const made = await loadCertificate(node(scratch(t)))
  t.match(made.spkiPem, /^-----BEGIN PUBLIC KEY-----\n/)
  const key = new X509Certificate(made.cert).publicKey
  t.ok(createPublicKey(made.spkiPem).equals(key))
  t.equal(made.fingerprint256, new X509Certificate(made.cert).fingerprint256)
})

t.test('a client that speaks no TLS 1.2 is refused', async (t) => {
  const made = await loadCertificate(node(scratch(t)))
  const client = 'TLSv1.1'
  t.equal(await ask(t, made, made.cert, 'localhost', { server: 'TLSv1', client }), 200, 'the client as such works')
  await t.rejects(ask(t, made, made.cert, 'localhost', { client }), { message: /alert protocol version/ })
})

t.test('another client does not trust it', async (t) => {
  const dir = scratch(t)
  const made = await loadCertificate(node(dir))
  const other = await loadCertificate(node(join(dir, 'other')))
  await t.rejects(ask(t, made, other.cert, 'localhost'), { code: /SELF_SIGNED|UNABLE_TO_VERIFY/ })
  await t.rejects(ask(t, made, made.cert, 'elsewhere.example'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
})

t.test('odd node names and addresses still give a certificate', async (t) => {
  const dir = scratch(t)
  const rows: Partial<CertificateOptions>[] = [
    { nodeName: '' },
    { nodeName: 'a,b=c "d" ü', addresses: async () => ['not an address', ''] },
    { nodeName: '192.0.2.77', addresses: async () => [] },
    { nodeName: `${'x'.repeat(63)}.${'y'.repeat(63)}` },
  ]
  for (const [i, row] of rows.entries()) {
    const made = await loadCertificate(node(join(dir, String(i)), row))
    t.equal(await ask(t, made, made.cert, 'localhost'), 200, `row ${i}`)
  }
  t.ok(new X509Certificate((await loadCertificate(node(join(dir, '2')))).cert).checkIP('192.0.2.77'))
})

t.test('an expired or half-made self-signed certificate is made anew with the same key', async (t) => {
  const dir = scratch(t)
  const made = await loadCertificate(node(dir))
  const late = new Date(made.notAfter.getTime() + 1000)
  const renewed = await loadCertificate(node(dir, { now: late }))
  t.not(renewed.fingerprint256, made.fingerprint256)
  t.equal(renewed.spkiPem, made.spkiPem)
  t.ok(renewed.notAfter > late)
  rmSync(made.certPath)
  t.equal((await loadCertificate(node(dir))).spkiPem, made.spkiPem)
  rmSync(made.keyPath)
  await t.rejects(loadCertificate(node(dir)), {
    code: 'TLS_CERTIFICATE',
    message: /key\.pem does not exist.*remove both/,
  })
})

t.test('configured files are used as they are', async (t) => {
  const dir = scratch(t)
  const own = await loadCertificate(node(join(dir, 'own')))
  const { certPath, keyPath } = own
  const loaded = await loadCertificate(node(join(dir, 'state'), { certPath, keyPath }))
  t.equal(loaded.fingerprint256, own.fingerprint256)
  t.throws(() => statSync(join(dir, 'state')), { code: 'ENOENT' })
})

t.test('a configured file that cannot be served says why, and nothing is made instead', async (t) => {
  const dir = scratch(t)
  const { certPath, keyPath } = await loadCertificate(node(join(dir, 'a')))
  const other = await loadCertificate(node(join(dir, 'b')))
  const junk = join(dir, 'junk.pem')
  writeFileSync(junk, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')
  const locked = join(dir, 'locked.pem')
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  writeFileSync(locked, privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }))
  const rows: [string, Partial<CertificateOptions>, RegExp][] = [
    ['missing certificate', { certPath: join(dir, 'no.pem'), keyPath }, /certificate .*no\.pem does not exist/],
    ['missing key', { certPath, keyPath: join(dir, 'no.pem') }, /key .*no\.pem does not exist/],
    ['a directory', { certPath: dir, keyPath }, /cannot be read: EISDIR/],
    ['no certificate inside', { certPath: junk, keyPath }, /junk\.pem holds no PEM certificate/],
    ['no key inside', { certPath, keyPath: certPath }, /holds no unencrypted PEM private key/],
    ['encrypted key', { certPath, keyPath: locked }, /holds no unencrypted PEM private key/],
    ['key of another', { certPath, keyPath: other.keyPath }, /does not belong to the certificate/],
    ['certificate alone', { certPath }, /tls_cert is set without tls_key/],
    ['key alone', { keyPath }, /tls_key is set without tls_cert/],
  ]
  for (const [title, paths, message] of rows) {
    await t.rejects(loadCertificate(node(join(dir, 'state'), paths)), { code: 'TLS_CERTIFICATE', message }, title)
  }
  t.throws(() => statSync(join(dir, 'state')), { code: 'ENOENT' })
  t.same(await loadCertificate(node(join(dir, 'a'), { certPath: '', keyPath: '' })).then((c) => c.certPath), certPath)
})

/** Watches, and hands out one change (or problem) after the other. */
function watched(t: Pick<Test, 'teardown'>, certificate: Certificate) {
  const changes: Certificate[] = []
  const problems: unknown[] = []
  let wake = () => {}
  const heard =
    <T>(list: T[]) =>
    (item: T) => {
      list.push(item)
      wake()
    }
  const stop = watchCertificate(certificate, heard(changes), {
    intervalMs: 20,
    debounceMs: 60,
    onProblem: heard(problems),
  })
  t.teardown(stop)
  // The watcher never keeps a process alive; the test must.
  const awake = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(awake))
  const until = async (enough: () => boolean) => {
    while (!enough()) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return { changes, problems, stop, until }
}

t.test('replaced files are noticed: rewritten, renamed, linked anew; bad ones are reported and not used', async (t) => {
  const dir = scratch(t)
  const pairs = await Promise.all(['a', 'b', 'c', 'd'].map((name) => loadCertificate(node(join(dir, name)))))
  const [a, b, c, d] = pairs as [Certificate, Certificate, Certificate, Certificate]
  const certPath = join(dir, 'cert.pem')
  const keyPath = join(dir, 'key.pem')
  copyFileSync(a.certPath, certPath)
  copyFileSync(a.keyPath, keyPath)
  const start = await loadCertificate(node(dir, { certPath, keyPath }))
  const { changes, problems, until, stop } = watched(t, start)

  copyFileSync(b.certPath, certPath)
  copyFileSync(b.keyPath, keyPath)
  await until(() => changes.at(-1)?.fingerprint256 === b.fingerprint256)
  t.equal(changes.length, 1, 'one change for two files')

  renameSync(c.keyPath, keyPath)
  await until(() => problems.length > 0)
  t.match(problems[0], { message: /does not belong/ })
  renameSync(c.certPath, certPath)
  await until(() => changes.at(-1)?.fingerprint256 === c.fingerprint256)

  rmSync(certPath)
  rmSync(keyPath)
  symlinkSync(d.certPath, certPath)
  symlinkSync(d.keyPath, keyPath)
  await until(() => changes.at(-1)?.fingerprint256 === d.fingerprint256)

  const known = problems.length
  writeFileSync(d.certPath, 'junk')
  await until(() => problems.length > known)
  t.equal(changes.length, 3)
  stop()
})

t.test('a change between load and watch is noticed, and a listener that throws does no harm', async (t) => {
  const dir = scratch(t)
  const a = await loadCertificate(node(join(dir, 'a')))
  const b = await loadCertificate(node(join(dir, 'b')))
  copyFileSync(b.certPath, a.certPath)
  copyFileSync(b.keyPath, a.keyPath)
  const problem = await new Promise((resolve) => {
    const awake = setInterval(() => {}, 1000)
    t.teardown(() => clearInterval(awake))
    const boom = () => {
      throw new Error('boom')
    }
    t.teardown(watchCertificate(a, boom, { intervalMs: 20, debounceMs: 20, onProblem: resolve }))
  })
  t.match(problem, { message: 'boom' })
})

t.test('a directory that is not there yet can be watched', async (t) => {
  const dir = scratch(t)
  const a = await loadCertificate(node(join(dir, 'a')))
  const b = await loadCertificate(node(join(dir, 'b')))
  const later = { ...a, certPath: join(dir, 'later', 'cert.pem'), keyPath: join(dir, 'later', 'key.pem') }
  const { changes, until } = watched(t, later)
  mkdirSync(join(dir, 'later'))
  copyFileSync(b.certPath, later.certPath)
  copyFileSync(b.keyPath, later.keyPath)
  await until(() => changes.length > 0)
  t.equal(changes[0]?.fingerprint256, b.fingerprint256)
})
