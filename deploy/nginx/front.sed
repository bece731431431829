# What svc-cluster.conf is in the container `front`: gateways by name, looked up for each request, no port
# that needs root, and the log to where a container's belongs, as no file can be written.
/^upstream svc_cluster {/,/^}/d
s/)$" svc_cluster;$/)$" gateway:8080;/
s/^    listen 80;/    listen 8080;/
s/^\( *\)\(proxy_pass .*\)/\1resolver 127.0.0.11 valid=1s ipv6=off;\n\1\2/
s/access_log \/var\/log\/nginx\/svc-cluster.log /access_log \/dev\/stdout /
