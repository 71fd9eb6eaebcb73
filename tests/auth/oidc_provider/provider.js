// An OpenID Connect provider with the device flow; usage: node provider.js PORT SECONDS
// SECONDS is how long ID tokens are valid. Any user may sign in, and is in the group "writers".
import { Provider } from 'oidc-provider';

const [port, seconds] = process.argv.slice(2).map(Number);
const provider = new Provider(`http://localhost:${port}`, {
  clients: [{
    client_id: 'sulina',
    token_endpoint_auth_method: 'none',
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
    response_types: [],
    redirect_uris: [],
  }],
  features: { deviceFlow: { enabled: true }, revocation: { enabled: true } },
  claims: { openid: ['sub', 'groups'] },
  conformIdTokenClaims: false,
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, groups: ['writers'] }) }),
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  ttl: { IdToken: seconds },
});
provider.listen(port, 'localhost');
