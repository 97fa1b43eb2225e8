import { protocolFaultsContract } from '../../contracts/protocol-faults.ts'

protocolFaultsContract('node')
