/** An agent's part that is killed in the middle: changes a virtual address again and again. Arguments: the bpf root. */
import { NETLINK_ROUTE } from '../../../netlink/bind.ts'
import { openNetlink } from '../../../netlink/socket.ts'
import { openAttaching } from '../../attach/attaching.ts'
import { openBalancer } from '../open.ts'
import { backend, vip } from './lab.ts'

const [root = ''] = process.argv.slice(2)
const onProblem = (error: unknown) => {
  throw error
}
const attaching = await openAttaching({ onProblem })
const { driver } = await openBalancer({ root, route: openNetlink(NETLINK_ROUTE), attaching, onProblem })
await driver.observe()
const all = [1, 2, 3].map((n) => backend(n))
let before = vip({ backends: all })
process.send?.('ready')
for (let n = 0; ; n++) {
  // One backend keeps its row, the others come and go, and so does a second virtual address.
  const after = vip({ backends: n % 2 ? all : all.slice(0, 1) })
  const second = vip({ id: 'second', key: 'lb/vip/second', port: 81, backends: all.slice(1) })
  await driver.apply([{ before, after }, n % 2 ? { before: second } : { after: second }])
  before = after
}
