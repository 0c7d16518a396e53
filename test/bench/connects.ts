/**
 * A process of its own that opens connections one after the other, each of which is refused: `connects.js <IPv4 address>
 * <port> <count>`. Prints the CPU time of one in ns, in which is what every node on the way does with it, and how many
 * there were a second.
 */
import koffi from 'koffi'
import { close, socket } from '../../dataplane/libc.ts'

const [address = '', port = '', count = ''] = process.argv.slice(2)
/** linux/socket.h, asm-generic/errno.h */
const [AF_INET, SOCK_STREAM, ECONNREFUSED] = [2, 1, 111]
const WARM_UP = 1000

const connect: (fd: number, address: Uint8Array, length: number) => number = koffi
  .load(null)
  .func('int connect(int fd, const void *address, uint32_t length)')
const to = Buffer.alloc(16)
to.writeUInt16LE(AF_INET, 0)
to.writeUInt16BE(Number(port), 2)
Buffer.from(address.split('.').map(Number)).copy(to, 4)

function connectMany(times: number): void {
  for (let n = 0; n < times; n++) {
    const fd = socket(AF_INET, SOCK_STREAM, 0)
    if (connect(fd, to, to.length) === 0 || koffi.errno() !== ECONNREFUSED) {
      throw new Error(`connection ${n} was not refused but ended with error ${koffi.errno()}`)
    }
    close(fd)
  }
}

connectMany(WARM_UP)
const [before, since] = [process.cpuUsage(), performance.now()]
connectMany(Number(count))
const { user, system } = process.cpuUsage(before)
const seconds = (performance.now() - since) / 1000
process.stdout.write(`${((user + system) * 1000) / Number(count)} ${Number(count) / seconds}\n`)
