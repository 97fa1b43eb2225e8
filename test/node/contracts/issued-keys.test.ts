import { issuedKeysContract } from '../../contracts/issued-keys.ts'

issuedKeysContract('node')
