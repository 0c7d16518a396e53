/** Prints all that etcd has, as JSON: `node etcd-keys.js <state directory of an agent> <node id> <port>`, in that node's namespace. */
import { openEtcd } from '../../plugins/cluster/etcd/client.ts'
import { openFiles } from '../../plugins/cluster/files.ts'

const [stateDir = '', node = '', port = ''] = process.argv.slice(2)
const tls = openFiles(stateDir).tls()
if (tls === undefined) throw new Error(`${node} has no certificate`)
const etcd = await openEtcd({ ...tls, node, port: Number(port) })
const { kvs } = await etcd.range('/', { ms: 10_000 })
process.stdout.write(JSON.stringify(kvs.map(({ key, value, modRevision }) => ({ key, value, revision: modRevision }))))
etcd.close()
