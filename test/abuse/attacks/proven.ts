/** Attacks that a test elsewhere tries, because they need its rig: who, what, and where it is seen to fail. */
import type { Proven } from './table.ts'

const of =
  (by: Proven['by']) =>
  (what: string, file: string, title: string): Proven => ({ by, what, file, title })

const stranger = of('stranger')
const tenant = of('tenant')
const guest = of('guest')
const neighbour = of('neighbour')
const member = of('member')
const local = of('local user')

export const proven: readonly Proven[] = [
  stranger(
    'guess the token, on all three ports',
    'core/gates/test/rate.test.ts',
    'ten wrong credentials block the address, and only it',
  ),
  stranger(
    'have the node block a third party by forged headers',
    'core/gates/test/rate.test.ts',
    'forwarding headers move neither',
  ),
  stranger(
    'fill the tables of buckets and blocks',
    'core/gates/test/forget.test.ts',
    '100 000 addresses cost some MiB',
  ),
  stranger(
    'flood with wrong credentials until no event is kept',
    'core/gates/test/blocked-events.test.ts',
    'a flood of blocked addresses',
  ),
  stranger(
    'drip headers and bodies',
    'core/transport/test/listener.test.ts',
    'slow headers and slow bodies end in a 408',
  ),
  stranger(
    'stop reading an answer',
    'core/transport/test/stalled-answer.test.ts',
    'holds the connection for two minutes at most',
  ),
  stranger('stop reading the event stream', 'test/abuse/stalled.test.ts', 'stalled readers cost little'),
  stranger('break TLS', 'test/abuse/testssl.test.ts', 'nothing worse than LOW'),
  stranger(
    'double keys, nest, bloat or break a JSON body',
    'core/transport/test/json.test.ts',
    'a body of 1 MiB is judged in little time',
  ),
  stranger('reach a prototype by a key', 'core/transport/test/json.test.ts', 'never reaches a prototype'),
  stranger(
    'put control characters into any text',
    'test/rest/bad-input.test.ts',
    'control characters and lone surrogates',
  ),
  stranger('make the agent throw', 'test/rest/fuzz.test.ts', 'arbitrary calls get no 5xx'),
  stranger(
    'fill the memory of an agent that starts with calls that wait',
    'core/transport/test/until-started.test.ts',
    'one connection cannot have thousands of requests wait',
  ),
  stranger(
    'keep callers that are known from an agent that starts',
    'core/transport/test/until-started.test.ts',
    'of one source a few strangers wait',
  ),
  stranger(
    'try more keys than else at an agent that starts',
    'core/transport/test/until-started.test.ts',
    'keys that waited are judged one after the other',
  ),
  stranger(
    'read a secret out of logs, events and answers',
    'test/rest/failure.test.ts',
    'appear in no log, event, answer or file',
  ),
  tenant(
    "reach another tenant's or the operator's paths",
    'core/gates/test/credentials.test.ts',
    'a tenant key outside its tenant',
  ),
  tenant(
    'leave its scope by the spelling of a path',
    'test/rest/paths.test.ts',
    "reaches its own tenant's routes only",
  ),
  tenant('use its key on other ports', 'test/rest/other-ports.test.ts', 'are refused on 7072 and 7071'),
  tenant('write past the plan or the freeze of the licence', 'test/rest/paths.test.ts', 'none leads past the'),
  guest(
    'meet another tenant that has the same addresses',
    'plugins/tenants/test/packets.test.ts',
    'tenants with the same range never meet',
  ),
  guest(
    'flood the list of violations',
    'dataplane/bpf/port/test/violations.test.ts',
    'a flood of MACs is told a little',
  ),
  guest('cut frames at every byte', 'dataplane/bpf/port/test/malformed.test.ts', 'frames cut at every byte'),
  guest(
    'find a frame that the programs judge otherwise than the rules say',
    'dataplane/bpf/port/test/random.test.ts',
    'agree with the reference',
  ),
  guest('send tags that are locked', 'plugins/vlan/test/packets.test.ts', 'frames of a locked VLAN are dropped'),
  guest('ask for addresses in the name of others', 'responder/dhcp/test/answer.test.ts', 'nobody else is answered'),
  guest(
    'send more than DHCP by an address that was taken away',
    'plugins/dhcp/test/former.test.ts',
    'is refused when it renews, and reaches nothing else',
  ),
  guest('break the DHCP server', 'responder/dhcp/test/fuzz.test.ts', 'no message makes the server fail'),
  neighbour(
    'go on with a connection that a new rule forbids',
    'plugins/firewall/test/packets-evict.test.ts',
    'a new drop ends established connections',
  ),
  neighbour('flood a virtual address with openings', 'dataplane/bpf/lb/test/flood.test.ts', 'a flood of openings'),
  neighbour(
    'send frames into an overlay without being a peer',
    'plugins/vxlan/test/life.test.ts',
    'UDP 4789 is for peers',
  ),
  neighbour('break the DNS server', 'responder/dns/test/fuzz.test.ts', 'no request ends the server'),
  neighbour(
    'crash the agent, or have it end another process, from a DNS server that was taken over',
    'dataplane/responder/test/heard.test.ts',
    'cannot name another process',
  ),
  neighbour(
    "take away other areas' rules from a DNS server that was taken over",
    'dataplane/responder/test/heard.test.ts',
    'nothing that it says throws',
  ),
  neighbour('have the DNS server sign without end', 'responder/dns/test/limits.test.ts', 'cannot make the server sign'),
  member('come back by its code', 'plugins/cluster/test/codes.test.ts', 'the code of a node that is removed is over'),
  member('use a code twice', 'plugins/cluster/test/codes.test.ts', 'a code is good once'),
  member(
    'reach etcd or the door by certificates, keys and codes that it kept after its removal',
    'plugins/cluster/test/former.test.ts',
    'opens nothing of it by what it kept',
  ),
  member(
    'reach a port of the cluster after its removal, on a connection that it held, by another address',
    'plugins/cluster/test/guard.test.ts',
    'are for members alone, by IPv4',
  ),
  member(
    'come back by a code that it made before its removal',
    'plugins/cluster/test/removal.test.ts',
    'codes that were good before a removal are good no more',
  ),
  member(
    'drive out a member that has not heard of the removal',
    'plugins/cluster/test/removal.test.ts',
    'cannot tell a member that has not heard of it',
  ),
  member(
    'hold up the others, and its own removal, by what it writes into etcd',
    'plugins/cluster/test/hostile.test.ts',
    'holds up nobody',
  ),
  member(
    'come back by a code that it made, after the others were given up',
    'plugins/cluster/test/hostile.test.ts',
    'who goes on alone has none of the codes of the others',
  ),
  member(
    'evade its removal by the name of another',
    'plugins/cluster/test/membership.test.ts',
    'calls itself by the name of another',
  ),
  member(
    'leave an authority to the others as one from before',
    'plugins/cluster/test/trusting.test.ts',
    'is not one from before, whoever says so',
  ),
  member(
    'go on by the key of the authority that members of earlier versions shared',
    'plugins/cluster/test/upgrade.test.ts',
    'get their own ones by an upgrade',
  ),
  neighbour(
    'reach the ports of the cluster without being a member',
    'plugins/cluster/test/guard6.test.ts',
    'are for members alone, by IPv6',
  ),
  member(
    'hand a secret to an impostor',
    'plugins/cluster/test/join.test.ts',
    'goes to nobody whose certificate is of another authority',
  ),
  local('read what root keeps', 'core/licence/test/installed.test.ts', 'only root can read the file'),
  local('find a secret in a support bundle', 'core/cli/test/bundle.test.ts', 'nothing of what is secret'),
  local('forge or stretch a licence', 'core/licence/test/installed.test.ts', "abuse of the node's own key is refused"),
  local('set the clock back', 'core/licence/test/installed.test.ts', 'cannot thaw'),
  guest(
    'come by a device with the ifindex of another tenant',
    'dataplane/bpf/port/test/guard.test.ts',
    'with the ifindex of another device',
  ),
  local(
    'open the gate by a rule before ours, or by the flag dormant',
    'dataplane/bpf/port/test/guard.test.ts',
    'a gate that others have opened is shut again, and told',
  ),
  local(
    'set up the device on which the agent tries to attach',
    'dataplane/bpf/attach/test/attachments.test.ts',
    'the trial tells a form that works and leaves no device behind',
  ),
  guest(
    'hear a former network from a port whose last machine was detached',
    'dataplane/bpf/port/test/reopen.test.ts',
    'hears its former network no more',
  ),
  local(
    'have frames pass unjudged by deleting pins',
    'test/pins-gone-closed.test.ts',
    'no machine of one tenant hears one of another',
  ),
  local('open a map or a program by its pin', 'test/pins-private.test.ts', 'nobody but root may open what is pinned'),
  local(
    "run code in the agent by Node's debugger after somebody sent SIGUSR1",
    'core/test/debugger.test.ts',
    'opens no debugger',
  ),
  stranger(
    'wait for ever at a port that was switched off',
    'core/test/handover.test.ts',
    'what is switched off is kept no longer',
  ),
  stranger(
    'have a change carried out, or a wrong key judged late, while the agent starts',
    'core/test/starting.test.ts',
    'wrong ones of the core are refused at once',
  ),
]
