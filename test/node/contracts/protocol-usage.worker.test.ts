import { protocolUsageContract } from '../../contracts/protocol-usage.ts'

protocolUsageContract('worker')
