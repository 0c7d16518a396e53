/** One file for whoever is to help. */
import { writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { VERSION } from '../../version.ts'
import { collect } from '../bundle/collect.ts'
import { tar } from '../bundle/tar.ts'
import { readOpenApi } from '../openapi.ts'
import { sizeText } from '../progress.ts'
import { UsageError, type Verb } from '../verb.ts'
import { examine } from './doctor.ts'

export const verbs: readonly Verb[] = [
  {
    path: 'support-bundle',
    summary: 'gather what helps to help into one .tar.gz, without secrets and without the words of people',
    example: 'support-bundle /root/node7.tar.gz',
    arguments: [{ name: 'file', summary: 'where to; not over a file that is there', optional: true }],
    options: [{ flags: '--log <file>', summary: 'log of the agent, such as of journalctl -u stratumd -o cat' }],
    async run(context) {
      const now = new Date()
      const stamp = now.toISOString().replace(/[-:]|\.\d+/g, '')
      const file = context.argument('file') || `stratum-support-${stamp}.tar.gz`
      const log = context.options.log === undefined ? undefined : String(context.options.log)
      const findings = await examine(context)
      const files = await collect({ context, document: readOpenApi(), version: VERSION, now, log, findings })
      const packed = await promisify(gzip)(tar(files, now))
      try {
        writeFileSync(file, packed, { mode: 0o600, flag: 'wx' })
      } catch (error) {
        throw new UsageError(`${file} cannot be written: ${(error as Error).message}`, { cause: error })
      }
      context.print(
        { file, bytes: packed.length, files: files.map(({ name, content }) => ({ name, bytes: content.length })) },
        `${file}: ${files.length} files, ${sizeText(packed.length)}; look into it before you hand it on`,
      )
    },
  },
]
