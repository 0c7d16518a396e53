/** A machine's process: serves and asks as it is told over IPC. `machine.ts` starts it in a namespace. */
import { createSocket, type Socket as Datagrams } from 'node:dgram'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** For what is to be answered, on a machine that is busy with other things. */
const PATIENCE_MS = 10_000

export interface Asked {
  protocol?: 'tcp' | 'udp'
  address: string
  port: number
  /** How many times, one after the other. Default 1. */
  count?: number
  localPort?: number
  localAddress?: string
  /** How long to wait for an answer: short where none is expected. */
  timeoutMs?: number
}

/** What a machine can be told to do; each answers what its method returns. */
export const orders = {
  /** Serves `<name> <address of the client>`, then what it gets. */
  async listen({
    protocol,
    port,
    name,
    address,
  }: {
    protocol: 'tcp' | 'udp'
    port: number
    name: string
    address?: string
  }) {
    if (protocol === 'udp') {
      const socket = createSocket(address?.includes(':') || address === undefined ? 'udp6' : 'udp4')
      socket.on('message', (message, from) => {
        const said = message.length > 100 ? ` ${message.length}` : ''
        socket.send(`${name} ${plain(from.address)}${said}`, from.port, from.address)
      })
      socket.bind(port, address)
      await once(socket, 'listening')
      return
    }
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => {})
      socket.write(`${name} ${plain(socket.remoteAddress ?? '')}\n`)
      socket.on('data', (data) => socket.write(data))
      socket.on('end', () => socket.end())
    })
    server.listen(port, address)
    await once(server, 'listening')
  },

  /** First line of each answer, or the code of the error. */
  async ask({ count = 1, ...asked }: Asked): Promise<string[]> {
    const answers: string[] = []
    for (let n = 0; n < count; n++) answers.push(await (asked.protocol === 'udp' ? askUdp(asked) : askTcp(asked)))
    return answers
  },

  /** Opens a connection that stays; answers its number and the first line. */
  async open(asked: Asked): Promise<{ handle: number; line: string }> {
    const socket = dial(asked)
    const line = await firstLine(socket, asked.timeoutMs ?? PATIENCE_MS)
    handles.push(socket)
    return { handle: handles.length - 1, line }
  },

  /** Says something and waits for its echo. */
  async say({
    handle,
    text,
    timeoutMs = PATIENCE_MS,
  }: {
    handle: number
    text: string
    timeoutMs?: number
  }): Promise<string> {
    const socket = handles[handle]
    if (socket === undefined) return 'none'
    if (socket.destroyed) return 'closed'
    let heard = ''
    const done = new Promise<string>((resolve) => {
      const end = (word: string) => {
        socket.removeAllListeners('data')
        clearTimeout(timer)
        resolve(word)
      }
      const timer = setTimeout(() => end('timeout'), timeoutMs)
      socket.on('data', (data) => {
        heard += data
        if (heard.length >= text.length) end(heard === text ? 'same' : 'other')
      })
      socket.once('close', () => end('closed'))
    })
    socket.write(text)
    return done
  },

  async close({ handle, how }: { handle: number; how: 'fin' | 'reset' }): Promise<void> {
    const socket = handles[handle]
    if (socket === undefined || socket.destroyed) return
    const closed = once(socket, 'close')
    socket.resume()
    if (how === 'reset') socket.resetAndDestroy()
    else socket.end()
    await closed
  },

  /** Whom a connection is with, as its socket tells. */
  async peer(asked: Asked): Promise<string> {
    const socket = dial(asked)
    await firstLine(socket, 2000)
    const { remoteAddress = '', remotePort = 0 } = socket
    socket.destroy()
    return `${plain(remoteAddress)}:${remotePort}`
  },

  /** A connected datagram socket: whom it is with, and whether it is answered. */
  async connected({ address, port }: Asked): Promise<string[]> {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
    socket.connect(port, address)
    await once(socket, 'connect')
    const { address: peer, port: peerPort } = socket.remoteAddress()
    socket.send('x')
    const answer = await heard(socket, 1000)
    socket.close()
    return [`${plain(peer)}:${peerPort}`, answer.startsWith('b') ? 'answered' : answer]
  },

  /** One datagram socket that asks several times, so that all are of one flow. */
  async flow({ address, port, localPort, count = 1, bytes = 1 }: Asked & { bytes?: number }): Promise<string[]> {
    const key = `${address} ${port} ${localPort}`
    let socket = flows.get(key)
    if (socket === undefined) {
      socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
      socket.bind(localPort)
      await once(socket, 'listening')
      flows.set(key, socket)
    }
    const answers: string[] = []
    for (let n = 0; n < count; n++) {
      socket.send(Buffer.alloc(bytes, 'x'), port, address)
      answers.push(await heard(socket, 1000))
    }
    return answers
  },
}

const handles: Socket[] = []
const flows = new Map<string, Datagrams>()

const plain = (address: string) => address.replace(/^::ffff:/, '')

function dial({ address, port, localPort, localAddress }: Asked): Socket {
  const socket = connect({
    host: address,
    port,
    ...(localPort && { localPort }),
    ...(localAddress && { localAddress }),
  })
  socket.on('error', () => {})
  return socket
}

function firstLine(socket: Socket, timeoutMs: number): Promise<string> {
  return new Promise((resolve) => {
    const end = (word: string) => {
      clearTimeout(timer)
      socket.removeAllListeners('data')
      resolve(word)
    }
    const timer = setTimeout(() => {
      end('timeout')
      socket.destroy()
    }, timeoutMs)
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? 'error'))
    socket.once('data', (data) => end(String(data).trim()))
  })
}

async function askTcp(asked: Asked): Promise<string> {
  const socket = dial(asked)
  const line = await firstLine(socket, asked.timeoutMs ?? PATIENCE_MS)
  if (socket.destroyed) return line
  socket.resume()
  const closed = once(socket, 'close')
  socket.end()
  await closed
  return line
}

async function askUdp({ address, port, localPort, timeoutMs = PATIENCE_MS }: Asked): Promise<string> {
  const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
  if (localPort) socket.bind(localPort)
  socket.send('x', port, address)
  const answer = await heard(socket, timeoutMs)
  socket.close()
  return answer
}

function heard(socket: Datagrams, timeoutMs: number): Promise<string> {
  return new Promise((resolve) => {
    const end = (word: string) => {
      clearTimeout(timer)
      socket.removeAllListeners('message')
      socket.removeAllListeners('error')
      resolve(word)
    }
    const timer = setTimeout(() => end('timeout'), timeoutMs)
    socket.once('message', (message, from) => end(`${message} from ${plain(from.address)}:${from.port}`))
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? 'error'))
  })
}

process.on('message', async ({ id, order, given }: { id: number; order: keyof typeof orders; given: never }) => {
  const answer = await (orders[order] as (given: never) => Promise<unknown>)(given).catch(String)
  process.send?.({ id, answer })
})
process.on('disconnect', () => process.exit(0))
