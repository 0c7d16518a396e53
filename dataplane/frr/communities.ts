/** Communities (RFC 1997): two numbers, and the words that FRR writes for some of them. */

/** As `show running-config` has them, and as JSON has them (lib and bgpd/bgp_community.c), in lower case without hyphens. */
const WORDS: ReadonlyMap<string, string> = new Map([
  ['internet', '0:0'],
  ['gracefulshutdown', '65535:0'],
  ['acceptown', '65535:1'],
  ['routefiltertranslatedv4', '65535:2'],
  ['routefilterv4', '65535:3'],
  ['routefiltertranslatedv6', '65535:4'],
  ['routefilterv6', '65535:5'],
  ['llgrstale', '65535:6'],
  ['nollgr', '65535:7'],
  ['acceptownnexthop', '65535:8'],
  ['blackhole', '65535:666'],
  ['noexport', '65535:65281'],
  ['noadvertise', '65535:65282'],
  ['localas', '65535:65283'],
  ['nopeer', '65535:65284'],
])
/** Those that the API has a word for (D81). */
const NAMES = new Map([
  ['65535:65281', 'no-export'],
  ['65535:65282', 'no-advertise'],
  ['65535:65284', 'no-peer'],
])

/** `no-export` → `65535:65281`; what is a number already stays as it is. */
export const communityNumber = (text: string): string => WORDS.get(text.toLowerCase().replaceAll(/[-_]/g, '')) ?? text
export const communityName = (text: string): string => NAMES.get(text) ?? text

/** Each once, as numbers, by their value: there is one way to write a set of them. */
export function communitySet(all: readonly string[]): string[] {
  const value = (text: string) => text.split(':').reduce((sum, part) => sum * 65_536 + Number(part), 0)
  return [...new Set(all.map(communityNumber))].sort((a, b) => value(a) - value(b))
}
