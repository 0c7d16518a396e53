/** Files of a member: its key and certificates, which only root may read, and etcd's data. */
import { existsSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writePrivateFile } from '../../core/private-file.ts'

export interface Tls {
  /** PEM. */
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
  /** PEM, of the cluster's authority; undefined: it was not kept yet. */
  authorityKey(): string | undefined
  keepAuthorityKey(key: string): void
  /** Whether etcd has data here. */
  hasData(): boolean
  wipe(): Promise<void>
}

const AUTHORITY_KEY = 'ca-key.pem'

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
    authorityKey: () => (existsSync(place(AUTHORITY_KEY)) ? read(AUTHORITY_KEY) : undefined),
    keepAuthorityKey: (key) => writePrivateFile(place(AUTHORITY_KEY), key),
    hasData: () => existsSync(join(dataDir, 'member', 'wal')),
    async wipe() {
      known = undefined
      await rm(dataDir, { recursive: true, force: true })
      await rm(certificateDir, { recursive: true, force: true })
    },
  }
}
