/** Messages that were damaged on their way: nothing makes the server fail, and what it answers can be read. */
import t from 'tap'
import { chance } from '../../../test/chance.ts'
import { answer } from '../answer.ts'
import { openBook } from '../book.ts'
import { readRequest } from '../message.ts'
import { ask, binding, ip, MAC, NOW, network, told } from './client.ts'

/** FUZZ: how many messages; the long run takes a million and more. */
t.test('no message makes the server fail, and every answer is one to the bound MAC', async (t) => {
  const count = Number(process.env.FUZZ ?? 30_000)
  const random = chance(Number(process.env.SEED ?? 67))
  const int = (below: number) => Math.floor(random() * below)
  const book = openBook()
  const dns = ['9.9.9.9', '1.1.1.1']
  book.apply([{ after: network({ dns, domain: 'example.org', mtu: 1400 }) }, { after: binding() }], NOW)
  const options: (readonly [number, Uint8Array])[] = [
    [55, Buffer.from([1, 3, 6, 15, 26, 28])],
    [61, Buffer.from('id')],
    [12, Buffer.from('host')],
    [52, Buffer.from([3])],
    [57, Buffer.from([5, 220])],
  ]
  const seeds = [1, 3, 4, 7, 8].flatMap((type) => [
    ask({ type, wants: '10.0.0.5', server: '10.0.0.1', options }),
    ask({ type, ciaddr: '10.0.0.5', options: options.filter(([code]) => code !== 52) }),
  ])
  let [read, answered] = [0, 0]
  for (let n = 0; n < count; n++) {
    const seed = Buffer.from(seeds[int(seeds.length)] ?? '')
    const bytes = int(4) === 0 ? seed.subarray(0, int(seed.length + 1)) : seed
    for (let changes = int(6); changes > 0 && bytes.length > 0; changes--) {
      bytes[int(3) === 0 ? int(bytes.length) : Math.min(bytes.length - 1, 230 + int(90))] = int(256)
    }
    const request = readRequest(bytes)
    if (request === undefined) continue
    read++
    const { reply, event } = answer(book, request, { net: 1, source: [0, ip('10.0.0.5')][int(2)] ?? 0 }, NOW + n)
    if (event) book.note(event)
    if (event && (event.mac !== MAC || event.address !== '10.0.0.5')) t.fail(`a lease of ${event.mac}`)
    if (reply === undefined) continue
    answered++
    const { mac, yiaddr } = told(reply.bytes)
    if (mac !== MAC || !['10.0.0.5', '0.0.0.0'].includes(yiaddr)) t.fail(`${yiaddr} for ${mac}`)
    if (reply.bytes.length > 1472 || reply.from !== ip('10.0.0.1')) t.fail(bytes.toString('hex'))
  }
  t.ok(read > count / 10, `control: ${read} of ${count} could be read still`)
  t.ok(answered > count / 100, `control: ${answered} were answered`)
  t.ok(read < count, 'and others not')
})
