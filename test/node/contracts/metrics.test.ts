import { metricsContract } from '../../contracts/metrics.ts'

metricsContract('node')
metricsContract('worker')
