/** The commands against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'
import { dnsArea } from './area.ts'

t.test('zones and records are added, listed and deleted, and a zone is signed', async (t) => {
  const { agent } = await dnsArea(t)
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  const says = async (line: string, out: string | RegExp) => t.match(await ctl(line), { code: 0, out }, line)
  await says('dns zones list', 'no zones\n')
  await says('dns zones add example.org', 'zone 1 (example.org.) added\n')
  await says('dns zones list', /^ID .*\n1 +example\.org\. +\d{10}\n$/)
  await says('dns records list', 'no records\n')
  await says(
    'dns records add 1 www A 192.0.2.1 --ttl 60 --source-subnet 10.0.0.0/8',
    'record 1 (A www.example.org.) added\n',
  )
  await says('dns records list --zone 1', /\n1 +www\.example\.org\. +60 +A +192\.0\.2\.1 +10\.0\.0\.0\/8\n$/)
  await says('dns dnssec example.org', /^example\.org\. 3600 IN DNSKEY .*\nexample\.org\. 3600 IN DS .*\n$/)
  t.match(await ctl('dns records add 1 www A x'), { code: 1, err: /value/ })
  await says('dns records delete 1', 'record 1 deleted\n')
  await says('dns zones delete 1', 'zone 1 deleted\n')
})
