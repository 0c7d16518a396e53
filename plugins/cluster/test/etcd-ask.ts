/** Changes what a member's etcd has and prints a key of it: `node etcd-ask.js <state directory> <node id> <key> <change>`, in its namespace. */
import { openEtcd } from '../etcd/client.ts'
import { put, removeAll } from '../etcd/words.ts'
import { openFiles } from '../files.ts'

const [stateDir = '', node = '', key = '', change = '{}'] = process.argv.slice(2)
const tls = openFiles(stateDir).tls()
if (tls === undefined) throw new Error(`${node} has no certificate`)
const etcd = await openEtcd({ ...tls, node, port: 7075 })
const { put: puts = {}, removeAll: prefixes = [] } = JSON.parse(change) as {
  put?: Record<string, string>
  removeAll?: string[]
}
const ops = [...Object.entries(puts).map(([name, value]) => put(name, value)), ...prefixes.map(removeAll)]
for (const end = Date.now() + 30_000; ; await new Promise((resolve) => setTimeout(resolve, 100))) {
  try {
    if (ops.length > 0) await etcd.txn([], ops)
    process.stdout.write(JSON.stringify({ value: (await etcd.get(key))?.value }))
    break
  } catch (error) {
    if (Date.now() > end) throw error
  }
}
etcd.close()
