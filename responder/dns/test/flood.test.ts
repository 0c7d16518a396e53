/** A flood of small queries under one address, over real sockets: how many answers it gets, and who is still answered. */
import '../../../test/inside.ts'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { LIMITS } from '../limits.ts'
import { decode, request } from './message.ts'
import { addAddresses, dig, PORT, record, serve, zone } from './serve.ts'

const AT = '10.0.0.53'
/** Of two prefixes. */
const [FLOODING, ELSEWHERE] = ['10.1.2.3', '10.7.7.7']
/** Of IPv4 and UDP. */
const HEADERS = 28
/** Of one moment: no more than the buffers of the sockets hold. */
const EACH = 50

requireRoot(t)
addAddresses()

t.test(
  'beyond the octets of its prefix every second answer is empty, the others are dropped, and TCP is open',
  async (t) => {
    // Time stands still, so that nothing is refilled and the figures are exact.
    const dns = await serve(t, [AT], { ticks: () => 0 })
    dns.apply([zone('z.'), record('z.', 'www A 192.0.2.1')])
    const socket = createSocket('udp4')
    t.teardown(() => socket.close())
    socket.bind(0, FLOODING)
    await once(socket, 'listening')
    const got: { truncated: boolean; answers: number; size: number }[] = []
    socket.on('message', (bytes) => {
      const { truncated, answers } = decode(bytes)
      got.push({ truncated, answers: answers.length, size: bytes.length })
    })
    const question = request('www.z.')
    const flood = async (count: number) => {
      for (let n = 0; n < count; n += EACH) {
        const { udp, limited, truncated } = dns.stats()
        for (let i = 0; i < EACH; i++) socket.send(question, PORT, AT)
        while (dns.stats().udp < udp + EACH) await turn()
        const silent = dns.stats().limited - limited - (dns.stats().truncated - truncated)
        const before = got.length
        for (let quiet = 0; quiet < 200 && got.length < before + EACH - silent; quiet++) await turn()
      }
      while (got.length < dns.stats().udp - (dns.stats().limited - dns.stats().truncated)) await turn()
    }
    await flood(2000)
    const whole = got.filter(({ answers }) => answers === 1)
    const empty = got.filter(({ truncated }) => truncated)
    const share = Math.floor(LIMITS.octets.burst / ((whole[0]?.size ?? 0) + HEADERS))
    t.equal(whole.length, share, `${share} of ${whole[0]?.size} octets are whole`)
    t.equal(empty.length, Math.ceil((2000 - share) / 2), 'every second one of the others comes without content')
    t.equal(got.length, whole.length + empty.length, 'and nothing else')
    t.ok(
      empty.every(({ answers, size }) => answers === 0 && size === question.length),
      'no larger than the question',
    )
    t.equal((await dig(AT, '-b', FLOODING, '+tcp', 'www.z', 'A')).answer.length, 1, 'it is answered over TCP')
    t.equal((await dig(AT, '-b', ELSEWHERE, '+notcp', 'www.z', 'A')).answer.length, 1, 'others over UDP, too')
  },
)
