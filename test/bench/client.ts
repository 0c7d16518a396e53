/** A bare HTTP/1.1 client over one keep-alive TLS connection: cheap, so that what is measured is the server. */
import { once } from 'node:events'
import { connect } from 'node:tls'

export interface Client {
  /** One request after the other. Resolves with status and body. */
  call(method: string, path: string, body?: unknown): Promise<{ status: number; body: string }>
  close(): void
}

export async function openClient(port: number, token: string): Promise<Client> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  socket.setNoDelay(true)
  let waiting: { resolve: (answer: { status: number; body: string }) => void } | undefined
  let received: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    const end = received.indexOf('\r\n\r\n')
    if (end < 0) return
    const head = received.toString('latin1', 0, end)
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
    if (received.length < end + 4 + length) return
    const answer = { status: Number(head.slice(9, 12)), body: received.toString('utf8', end + 4, end + 4 + length) }
    received = received.subarray(end + 4 + length)
    waiting?.resolve(answer)
  })
  const credentials = `Host: node\r\nAuthorization: Bearer ${token}\r\n`
  return {
    call(method, path, body) {
      const text = body === undefined ? '' : JSON.stringify(body)
      const type =
        body === undefined ? '' : `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n`
      return new Promise((resolve) => {
        waiting = { resolve }
        socket.write(`${method} ${path} HTTP/1.1\r\n${credentials}${type}\r\n${text}`)
      })
    },
    close: () => void socket.destroy(),
  }
}
