import { createGateway } from '../../src/gateway.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { gatewayContract, gatewayDocument, fetchRequest } from '../contracts/gateway.ts'
import { openRecordingPorts } from '../kit/recording-ports.ts'

const world = openRecordingPorts()
const config = parseConfig(
  gatewayDocument(['http://10.0.0.1:8000', 'http://10.0.0.2:8000']),
  {},
  { defaultVersion: 1, defaultObserveShare: 1, listens: true },
)
const gateway = createGateway(config, world.ports)

gatewayContract('createGateway', (request) => gateway.fetch(fetchRequest('http://gateway.test', request), world.scope))
