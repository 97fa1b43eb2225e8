import { policiesContract } from '../contracts/policies.ts'
import { openCluster } from './open-cluster.ts'

policiesContract('durablePools', openCluster)
