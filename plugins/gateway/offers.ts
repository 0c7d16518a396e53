/** What the gateway offers to other areas: its address, which is nobody else's, and how addresses that move are read. */
export { configuredVips, hostAddress } from './vip.ts'
