/** packets-evict.test.ts with nft in the place of the classifier. */
import './nft-lane.ts'
import './packets-evict.test.ts'
