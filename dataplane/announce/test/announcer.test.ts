/** What neighbours hear of addresses that move, over the real kernel in a network namespace of this file. */
import t from 'tap'
import { tap } from '../../../test/frames.ts'
import { here } from '../../../test/inside.ts'
import { netnsNamed, requireRoot } from '../../../test/netns.ts'
import { openNetlinkDriver } from '../../netlink/driver.ts'
import { type AddressEntry, address } from '../../netlink/entries.ts'
import {
  added,
  change,
  differing,
  ip,
  OWNERS,
  openDriver,
  quiet,
  removed,
  run,
  site,
} from '../../netlink/test/driver-rig.ts'
import { listen } from './read.ts'

if (requireRoot(t) && here !== undefined) all(here)

const PERIOD_MS = 2000

function all(name: string) {
  quiet()
  site('left')
  const ear = (t: Parameters<typeof tap>[0]) => listen(tap(t, netnsNamed(t, name), 'leftp'))
  const floating = (text: string): AddressEntry =>
    address('x', { link: 'left', address: text, noPrefixRoute: true, floating: true })
  const macOf = (link: string) => JSON.parse(ip('-j', 'link', 'show', link))[0].address as string

  t.test('D86 a claim is told five times over two seconds, and no other address is', async (t) => {
    const driver = await openDriver(t)
    const heard = ear(t)
    const claims = [floating('192.0.2.10/32'), floating('2001:db8::10/128')]
    const others = [address('x', { link: 'left', address: '10.8.0.1/24' })]
    const since = performance.now()
    await change(driver, added(...claims, ...others))
    const four = await heard.until('192.0.2.10', 5)
    const six = await heard.until('2001:db8::10', 5)
    t.ok(performance.now() - since >= PERIOD_MS, 'over two seconds')
    t.same(
      four.map(({ form }) => form),
      ['request', 'reply', 'request', 'reply', 'request'],
    )
    t.ok(four.every(({ mac }) => mac === macOf('left')))
    t.ok(six.every(({ form, mac, router }) => form === 'advertisement' && mac === macOf('left') && router === false))
    t.match(ip('address', 'show', 'dev', 'left'), /2001:db8::10\/128 .*deprecated/, 'the node does not send from it')
    t.match(run('ip', '-6', 'route', 'get', 'fd01::7'), /src fd01::1/)

    run('sysctl', '-qw', 'net.ipv6.conf.left.forwarding=1')
    const fence = floating('192.0.2.11/32')
    await change(driver, added(floating('2001:db8::11/128'), fence))
    await heard.until('192.0.2.11', 5)
    t.ok(
      heard.of('2001:db8::11').every(({ router }) => router === true),
      'who forwards says so',
    )
    t.same([heard.of('192.0.2.10').length, heard.of('2001:db8::10').length, heard.of('10.8.0.1').length], [5, 5, 0])
    t.same(await differing(await openDriver(t), [...claims, floating('2001:db8::11/128'), fence, ...others]), [])
    await change(driver, removed(...claims, floating('2001:db8::11/128'), fence, ...others))
    t.notMatch(ip('address'), /192\.0\.2|2001:db8/)
  })

  t.test('D86 nothing is told of an address that was given back, or never came to be', async (t) => {
    const driver = await openDriver(t)
    const heard = ear(t)
    const [given, undone, deleted, fence] = ['20', '21', '22', '23'].map((n) => floating(`192.0.2.${n}/32`))
    if (!given || !undone || !deleted || !fence) throw new Error('four of them')
    await change(driver, added(given, deleted))
    await heard.until('192.0.2.22', 2)
    await heard.until('192.0.2.20', 2)
    await change(driver, removed(given))
    ip('address', 'del', '192.0.2.22/32', 'dev', 'left')
    await driver.changedByOthers()
    const before = heard.of().length
    await (await change(driver, added(undone)))()
    const taken = address('x', { link: 'left', address: '10.1.0.1/24' })
    await t.rejects(driver.apply(added(floating('192.0.2.24/32'), taken)), { name: 'KernelRefusal' })
    await change(driver, added(fence))
    await heard.until('192.0.2.23', 5)
    t.equal(heard.of().length, before + 5, 'of the fence alone')

    await t.test('a removal that is taken back is a claim', async (t) => {
      await (await change(driver, removed(fence)))()
      await heard.until('192.0.2.23', 10)
      t.match(ip('address'), /192\.0\.2\.23\/32/)
    })
    await change(driver, removed(fence))
  })

  t.test(
    'D86 it is told anew when it was repaired, when the device is back, and when that has another MAC',
    async (t) => {
      const driver = await openDriver(t)
      const heard = ear(t)
      const claim = floating('192.0.2.30/32')
      const repair = async () => driver.apply(await differing(driver, [claim]), 'restore')
      await change(driver, added(claim))
      await heard.until('192.0.2.30', 5)

      ip('address', 'del', '192.0.2.30/32', 'dev', 'left')
      t.equal(await driver.changedByOthers(), true)
      await repair()
      await heard.until('192.0.2.30', 10)

      ip('link', 'set', 'leftp', 'down')
      ip('link', 'set', 'leftp', 'up')
      await heard.until('192.0.2.30', 15)

      ip('link', 'set', 'left', 'address', '02:00:00:00:00:99')
      const anew = (await heard.until('192.0.2.30', 20)).slice(15)
      t.ok(anew.every(({ mac }) => mac === '02:00:00:00:00:99'))

      t.test('an agent that finds it tells it once', async (t) => {
        const next = await openNetlinkDriver({ owners: OWNERS })
        t.teardown(() => next.close())
        t.same(await differing(next, [claim]), [])
        await heard.until('192.0.2.30', 21)
        await change(next, added(floating('192.0.2.31/32')))
        await heard.until('192.0.2.31', 5)
        t.equal(heard.of('192.0.2.30').length, 21)
        await change(next, removed(claim, floating('192.0.2.31/32')))
      })
    },
  )

  t.test('a device that was removed and made again is told of by its new MAC', async (t) => {
    const plug = (mac: string) => {
      ip('link', 'add', 'up0', 'address', mac, 'type', 'veth', 'peer', 'name', 'up0p')
      ip('link', 'set', 'up0p', 'up')
      ip('link', 'set', 'up0', 'up')
    }
    plug('02:00:00:00:00:01')
    const driver = await openDriver(t)
    const claim = address('x', { link: 'up0', address: '192.0.2.40/32', noPrefixRoute: true, floating: true })
    await change(driver, added(claim))
    ip('link', 'del', 'up0')
    t.equal(await driver.changedByOthers(), true)
    await driver.apply(await differing(driver, [claim]), 'restore')
    t.match(driver.pending(), [{ key: claim.key, reason: /up0 does not exist/ }])
    plug('02:00:00:00:00:02')
    const heard = listen(tap(t, netnsNamed(t, name), 'up0p'))
    t.equal(await driver.changedByOthers(), true)
    await driver.apply(await differing(driver, [claim]), 'restore')
    t.same(driver.pending(), [])
    const all = await heard.until('192.0.2.40', 5)
    t.ok(all.every(({ mac }) => mac === '02:00:00:00:00:02'))
    await change(driver, removed(claim))
    ip('link', 'del', 'up0')
  })

  t.test('one claim after the other does not keep the first from being told', async (t) => {
    const driver = await openDriver(t)
    const heard = ear(t)
    const many = Array.from({ length: 40 }, (_, n) => floating(`198.18.8.${n}/32`))
    for (const one of many) {
      await change(driver, added(one))
      await new Promise((wait) => setTimeout(wait, 5))
      heard.of()
    }
    t.ok(heard.of('198.18.8.0').length > 0, 'it was told while others came')
    await change(driver, removed(...many))
  })

  t.test('a thousand claims are told a few at a time, and no change waits for that', async (t) => {
    const driver = await openDriver(t)
    const heard = ear(t)
    const many = Array.from({ length: 1000 }, (_, n) => floating(`198.18.${n >> 8}.${n & 255}/32`))
    await change(driver, added(...many))
    // The socket of the ear holds less than a round of them.
    const ears = setInterval(() => heard.of(), 1)
    await change(driver, added(floating('192.0.2.50/32')))
    for (const { address: text } of many) await heard.until(text.replace('/32', ''), 5)
    clearInterval(ears)
    t.equal(heard.of().filter(({ address: text }) => text.startsWith('198.18.')).length, 5000)
    const first = heard.of().slice(0, 1000)
    const span = (first.at(-1)?.at ?? 0) - (first[0]?.at ?? 0)
    t.ok(span >= 250, `the first round took ${span} ms`)
    await change(driver, removed(...many, floating('192.0.2.50/32')))
  })
}
