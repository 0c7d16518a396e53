/** Files of a member: its keys and certificates, which only root may read, and etcd's data. */
import { existsSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writePrivateFile } from '../../core/private-file.ts'
import type { Authority } from './certificates.ts'

export interface Tls {
  /** PEM: the authorities that this node trusts. */
  ca: string
  certificate: string
  key: string
}

export interface Files {
  readonly certificateDir: string
  readonly dataDir: string
  /** undefined: there is none. */
  tls(): Tls | undefined
  keep(tls: Tls): void
  /** This node's own; undefined: it has none yet. */
  authority(): Authority | undefined
  keepAuthority(authority: Authority): void
  /** PEM: the key of an authority that all members had, from the time before each had its own. */
  formerKey(): string | undefined
  forgetFormerKey(): Promise<void>
  /** Whether etcd has data here. */
  hasData(): boolean
  wipe(): Promise<void>
}

const AUTHORITY = ['authority.pem', 'authority-key.pem'] as const
const FORMER_KEY = 'ca-key.pem'

export function openFiles(stateDir: string): Files {
  const [certificateDir, dataDir] = [join(stateDir, 'cluster'), join(stateDir, 'etcd')]
  const place = (name: string) => join(certificateDir, name)
  const read = (name: string) => readFileSync(place(name), 'utf8')
  let known: Tls | undefined
  return {
    certificateDir,
    dataDir,
    tls() {
      if (known === undefined && existsSync(place('ca.pem'))) {
        known = { ca: read('ca.pem'), certificate: read('cert.pem'), key: read('key.pem') }
      }
      return known
    },
    keep(tls) {
      writePrivateFile(place('key.pem'), tls.key)
      writePrivateFile(place('cert.pem'), tls.certificate)
      writePrivateFile(place('ca.pem'), tls.ca)
      known = tls
    },
    authority() {
      const [certificate, key] = AUTHORITY
      // The certificate was written last.
      return existsSync(place(certificate)) ? { certificate: read(certificate), key: read(key) } : undefined
    },
    keepAuthority({ certificate, key }) {
      writePrivateFile(place(AUTHORITY[1]), key)
      writePrivateFile(place(AUTHORITY[0]), certificate)
    },
    formerKey: () => (existsSync(place(FORMER_KEY)) ? read(FORMER_KEY) : undefined),
    forgetFormerKey: () => rm(place(FORMER_KEY), { force: true }),
    hasData: () => existsSync(join(dataDir, 'member', 'wal')),
    async wipe() {
      known = undefined
      await rm(dataDir, { recursive: true, force: true })
      await rm(certificateDir, { recursive: true, force: true })
    },
  }
}
