import { capacityContract } from '../../contracts/capacity.ts'
import { circuitContract } from '../../contracts/circuits.ts'
import { clusterContract } from '../../contracts/cluster.ts'
import { engineWaitContract } from '../../contracts/engine-wait.ts'
import { kvFeedContract } from '../../contracts/kv-feed.ts'
import { queueContract } from '../../contracts/queue.ts'
import { openCluster } from './open-cluster.ts'

clusterContract('memoryPools', openCluster)
circuitContract('memoryPools', openCluster)
kvFeedContract('memoryPools', openCluster)
queueContract('memoryPools', openCluster)
engineWaitContract('memoryPools', openCluster)
capacityContract('memoryPools', openCluster)
