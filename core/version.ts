import { readFileSync } from 'node:fs'

const file: { version: string } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

/** Semantic version of this build. */
export const VERSION = file.version
