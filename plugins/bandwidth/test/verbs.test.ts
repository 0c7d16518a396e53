/** The commands of bandwidth against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { buildArea, scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'
import { macOf } from './lab.ts'

t.test('limits, pools and quotas are made, shown and deleted', async (t) => {
  const { agent } = await buildArea(t, 'bandwidth')
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  const says = async (line: string, out: string | RegExp) => t.match(await ctl(line), { code: 0, out }, line)
  const [one, two] = [macOf(1), macOf(2)]
  await says('bandwidth list', 'no limits\n\nno pools\n')
  await says('bandwidth pool set shop --total-bps 10000000 --name Shop', 'pool shop created\n')
  await says(
    `bandwidth limit web ${one} --pool-id shop --guaranteed-bps 1000000`,
    /\nweb +02:\S+ +pool +1000000 +15000 +both +shop\n$/,
  )
  await says(`bandwidth limit db ${two} --rate-bps 5000000 --direction up`, /\ndb +02:\S+ +5000000 +- +15000 +up +-\n$/)
  await says(`bandwidth pool add shop ${macOf(3)} --rate-bps 2000000`, `${macOf(3)} added: pool shop\n`)
  await says('bandwidth list', /\nshop +Shop +10000000 +2000000 +02:\S+ 02:\S+\n$/)
  await says(`bandwidth pool remove shop ${macOf(3)}`, /removed from pool shop\n$/)
  t.match(await ctl('bandwidth pool delete shop'), { code: 1, err: /limit web names it/ })
  await says('bandwidth unlimit web', 'limit web deleted\n')
  await says('bandwidth pool delete shop', 'pool shop deleted\n')
  await says('bandwidth quota list', 'no quotas\n')
  await says(
    `bandwidth quota set q ${one} --bytes 1000 --action block --enforced`,
    /\nq +02:\S+ +1000 +0 +ok +block +\d{4}-\d{2}\n$/,
  )
  await says(`bandwidth quota set q ${one} --bytes 1000`, /notify \(advisory\)/)
  t.equal(JSON.parse((await ctl('bandwidth quota list --json')).out).quotas.length, 1)
  await says(`bandwidth quota delete ${one}`, 'quota q deleted\n')
  t.match(await ctl('bandwidth limit x'), { code: 2 })
  t.match(await ctl('bandwidth pool set x'), { code: 2 })
})
