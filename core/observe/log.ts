/** NDJSON on stdout. Credentials never reach it: headers and fields that carry them are redacted. */
import pino, { type DestinationStream, type Logger } from 'pino'

const SECRET = ['authorization', 'token', 'secret', 'md5_key', 'key', 'password']

export function openLog(level: string, stream?: DestinationStream): Logger {
  const paths = SECRET.flatMap((name) => [name, `*.${name}`, `*.*.${name}`])
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths, censor: '[redacted]' },
  }
  return stream ? pino(options, stream) : pino(options)
}
