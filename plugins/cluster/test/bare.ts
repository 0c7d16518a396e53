/** An etcd of one member without an agent. */
import { join } from 'node:path'
import { scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { certify, makeAuthority, makeKey } from '../certificates.ts'
import type { EtcdSettings } from '../etcd/child.ts'
import type { Etcd } from '../etcd/client.ts'
import { openSession, type Session, untilAnswers } from '../etcd/session.ts'
import { openFiles } from '../files.ts'

/** Its settings, with certificates made; ports are those of the test's own namespace. */
export async function settingsOf(t: Scope, more: Partial<EtcdSettings> = {}): Promise<EtcdSettings> {
  const files = openFiles(join(scratch(t), 'state'))
  const [node, address] = ['n1', '127.0.0.1']
  const authority = await makeAuthority('test', 'n1')
  const { key, publicKey } = makeKey()
  const certificate = await certify(authority, { node, address, publicKey }, new Date())
  files.keep({ ca: authority.certificate, certificate, key })
  return {
    ...{ node, address, cluster: 'test', peerPort: 7074, clientPort: 7075, state: 'new' },
    ...{ initialCluster: 'n1=https://127.0.0.1:7074', dataDir: files.dataDir, certificateDir: files.certificateDir },
    ...more,
  }
}

export async function startBare(
  t: Scope,
  more: Partial<EtcdSettings> = {},
): Promise<{ etcd: Etcd; session: Session; settings: EtcdSettings }> {
  const settings = await settingsOf(t, more)
  const session = await openSession(settings, { log() {}, ended() {}, removed() {} })
  t.teardown(() => session.close())
  await untilAnswers(session, (etcd) => etcd.get('/', { ms: 500 }), 60_000)
  return { etcd: session.etcd, session, settings }
}
