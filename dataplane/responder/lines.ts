/** JSON documents over a stream, one a line. */
import type { Socket } from 'node:net'

/** A line longer than this is not from our own other end. */
const MAX_LINE = 4 * 1024 * 1024

/** Calls `take` for each document; a stream that carries anything else is closed. */
export function readLines(socket: Socket, take: (document: unknown) => void): void {
  let rest = ''
  socket.setEncoding('utf8')
  socket.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > MAX_LINE) return void socket.destroy()
    for (const line of lines) {
      let document: unknown
      try {
        document = JSON.parse(line)
      } catch {
        return void socket.destroy()
      }
      take(document)
    }
  })
}

export const writeLine = (socket: Socket, document: object): boolean => socket.write(`${JSON.stringify(document)}\n`)
