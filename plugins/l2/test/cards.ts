/** Takes a card away and brings it back, and prints what the node lists each time. Runs in a machine of its own. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { NETLINK_GENERIC, NETLINK_ROUTE } from '../../../dataplane/netlink/bind.ts'
import { openNetlink } from '../../../dataplane/netlink/socket.ts'
import { listNics } from '../../../dataplane/nics.ts'

const [route, generic] = [openNetlink(NETLINK_ROUTE), openNetlink(NETLINK_GENERIC)]
const tell = async () => void process.stdout.write(`CARDS ${JSON.stringify(await listNics(route, generic))}\n`)

execFileSync('modprobe', ['virtio_net'])
const [card] = await listNics(route, generic)
if (card === undefined) throw new Error('this machine has no card')
await tell()
writeFileSync(`/sys/bus/pci/devices/${card.pci}/remove`, '1')
await tell()
writeFileSync('/sys/bus/pci/rescan', '1')
await tell()
await route.close()
await generic.close()
